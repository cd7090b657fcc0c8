# syntax=docker/dockerfile:1
FROM node:24-bookworm-slim AS build
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/waybill
COPY package.json package-lock.json .npmrc ./
COPY bin bin
COPY scripts scripts
# Builds ssh2's native crypto, too. Only this stage needs the compiler.
RUN npm ci --omit=dev
COPY LICENSE tsconfig.json ./
COPY src src
# Builds the Admin Console. The set-up itself never fails.
RUN bin/node scripts/set-up.ts && test -f dist/console/index.html

# npm ci brings the Node.js that package.json pins, so the image runs the version that was tested.
FROM debian:bookworm-slim
RUN useradd --system --uid 10001 --home-dir /var/lib/waybill --create-home waybill
COPY --from=build /opt/waybill /opt/waybill
RUN ln -s /opt/waybill/bin/waybill /usr/local/bin/waybill
USER waybill
WORKDIR /var/lib/waybill
ENV NODE_ENV=production \
    WAYBILL_HOST=0.0.0.0 \
    WAYBILL_PORT=8080 \
    WAYBILL_DATA_DIR=/var/lib/waybill
EXPOSE 8080
ENTRYPOINT ["waybill"]
CMD ["serve"]
