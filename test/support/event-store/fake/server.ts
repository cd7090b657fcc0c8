import { setTimeout as sleep } from 'node:timers/promises';
import gossip from '@eventstore/db-client/generated/gossip_grpc_pb.js';
import gossipPb from '@eventstore/db-client/generated/gossip_pb.js';
import features from '@eventstore/db-client/generated/serverfeatures_grpc_pb.js';
import featuresPb from '@eventstore/db-client/generated/serverfeatures_pb.js';
import type shared from '@eventstore/db-client/generated/shared_pb.js';
import service from '@eventstore/db-client/generated/streams_grpc_pb.js';
import type streams from '@eventstore/db-client/generated/streams_pb.js';
import streamsPb from '@eventstore/db-client/generated/streams_pb.js';
import {
  type Metadata,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js';
import { freePort } from '../../network/free-port.ts';
import { createFakeLog, type FakeLog } from './log.ts';
import {
  type AppendRequest,
  batchAnswer,
  expectedOfBatch,
  notReady,
  proposal,
  streamName,
} from './messages.ts';
import {
  deletion,
  fail,
  failNotLeader,
  isAfter,
  isDeleted,
  laggingView,
  type Place,
  type ReadCall,
  serveRead,
  serveSubscription,
} from './reads.ts';

type BatchCall = ServerDuplexStream<streams.BatchAppendReq, streams.BatchAppendResp>;

export interface FakeOptions {
  /**
   * Records between two checkpoints of a subscription; by default, the number that the client
   * requests.
   */
  checkpointEvery?: number;
  /** A checkpoint that every subscription starts with. */
  firstCheckpoint?: Place;
  version?: string;
  /** The log of another server, which makes the two a cluster. */
  log?: FakeLog;
}

/**
 * An EventStoreDB in memory, behind the client's own service definitions, on its own port: the
 * calls of the adapter, the server's rules for repeated appends, and faults on command. The log
 * survives `stop` and `disconnect`.
 */
export async function startFakeEventStoreDb({
  checkpointEvery,
  firstCheckpoint,
  version = '24.2.0.0',
  log = createFakeLog(),
}: FakeOptions = {}) {
  const batches = new Set<BatchCall>();
  const subscriptions = new Map<ReadCall, AbortController>();
  const inFlight = new Set<string>();
  const faults = { lostReplies: 0, refusals: 0, hung: false, doubleReplies: false };
  const counts = { appends: 0, eventsSent: 0 };
  /** Set on a follower: its leader, and the last position of its copy of the log. */
  let following: { leaderPort: number; upTo: bigint } | null = null;
  /** Set on a stale leader: the last position that its reads show. */
  let staleAt: bigint | null = null;
  /** The same of its subscriptions. */
  let subscriptionsAt: bigint | null = null;
  let answerFeatures = Promise.resolve();
  let connectMs = 0;
  let holding: Promise<void> | null = null;
  let duringRead: (() => Promise<unknown>) | null = null;

  /** Commits, and returns how to answer; null if it must not answer. */
  async function commit(request: AppendRequest) {
    counts.appends += 1;
    const key = request.proposals.map(({ id }) => id).join();
    if (faults.hung || inFlight.has(key)) return null;
    const verdict = log.append(request.stream, request.expected, request.proposals);
    if (faults.lostReplies > 0) {
      faults.lostReplies -= 1;
      return null;
    }
    if (holding === null) return verdict;
    inFlight.add(key);
    await holding;
    inFlight.delete(key);
    return verdict;
  }

  function serveBatches(call: BatchCall): void {
    const parts = new Map<string, AppendRequest>();
    batches.add(call);
    call.on('close', () => batches.delete(call));
    call.on('error', () => batches.delete(call));
    call.on('end', () => call.end());
    call.on('data', (message: streams.BatchAppendReq) => {
      if (following && requiresLeader(call)) return failNotLeader(call, following.leaderPort);
      const correlationId = message.getCorrelationId() as shared.UUID;
      const options = message.getOptions();
      if (options) {
        parts.set(correlationId.getString(), {
          stream: streamName(options.getStreamIdentifier()),
          expected: expectedOfBatch(options),
          proposals: [],
        });
      }
      const request = parts.get(correlationId.getString())!;
      request.proposals.push(...message.getProposedMessagesList().map(proposal));
      if (!message.getIsFinal()) return;
      parts.delete(correlationId.getString());
      if (faults.refusals > 0) {
        faults.refusals -= 1;
        call.write(notReady(request, correlationId));
        return;
      }
      void commit(request).then((verdict) => {
        if (verdict === null || !batches.has(call)) return;
        call.write(batchAnswer(request, correlationId, verdict));
        if (faults.doubleReplies) call.write(batchAnswer(request, correlationId, verdict));
      });
    });
  }

  function tombstone(
    { request }: ServerUnaryCall<streams.TombstoneReq, streams.TombstoneResp>,
    answer: sendUnaryData<streams.TombstoneResp>,
  ): void {
    const name = streamName(request.getOptions()?.getStreamIdentifier());
    if (isDeleted(log.stream(name) ?? [])) {
      const details = 'The stream was deleted';
      answer({ code: status.FAILED_PRECONDITION, details, metadata: deletion(name) });
      return;
    }
    log.tombstone(name);
    answer(null, new streamsPb.TombstoneResp());
  }

  async function read(call: ReadCall): Promise<void> {
    const ended = new AbortController();
    call.on('cancelled', () => ended.abort());
    if (faults.hung) return;
    const isSubscription = call.request.getOptions()?.hasSubscription() === true;
    // Like the real server: a follower takes a subscription that needs nothing before its end.
    if (following && requiresLeader(call) && !(isSubscription && isAfter(call, following.upTo)))
      return failNotLeader(call, following.leaderPort);
    if (!isSubscription) {
      const upTo = following?.upTo ?? staleAt ?? (duringRead && endOf());
      await duringRead?.();
      return serveRead(upTo === null ? log : laggingView(log, upTo), call, ended.signal);
    }
    subscriptions.set(call, ended);
    ended.signal.addEventListener('abort', () => subscriptions.delete(call));
    const view = {
      get records() {
        const upTo = following?.upTo ?? subscriptionsAt;
        return upTo === null ? log.records : laggingView(log, upTo).records;
      },
      changed: log.changed,
    };
    await serveSubscription(view, call, ended.signal, {
      checkpointEvery,
      firstCheckpoint,
      onEvent: () => counts.eventsSent++,
    });
  }

  function tellFeatures(
    _: ServerUnaryCall<shared.Empty, featuresPb.SupportedMethods>,
    answer: sendUnaryData<featuresPb.SupportedMethods>,
  ): void {
    const method = new featuresPb.SupportedMethod()
      .setServiceName('event_store.client.streams.streams')
      .setMethodName('batchappend');
    const answered = new featuresPb.SupportedMethods()
      .setEventStoreServerVersion(version)
      .setMethodsList([method]);
    void answerFeatures.then(() => sleep(connectMs)).then(() => answer(null, answered));
  }

  function gossipAbout(
    _: ServerUnaryCall<shared.Empty, gossipPb.ClusterInfo>,
    answer: sendUnaryData<gossipPb.ClusterInfo>,
  ): void {
    const leader = new gossipPb.MemberInfo()
      .setState(gossipPb.MemberInfo.VNodeState.LEADER)
      .setIsAlive(true);
    leader.setHttpEndPoint(new gossipPb.EndPoint().setAddress('127.0.0.1').setPort(port));
    answer(null, new gossipPb.ClusterInfo().setMembersList([leader]));
  }

  const endOf = () => log.records.at(-1)?.position ?? 0n;

  let server = new Server();
  async function listen(port: number): Promise<number> {
    server = new Server();
    server.addService(service.StreamsService, {
      read,
      batchAppend: serveBatches,
      tombstone,
    });
    server.addService(gossip.GossipService, { read: gossipAbout });
    server.addService(features.ServerFeaturesService, { getSupportedMethods: tellFeatures });
    return new Promise((resolve, reject) => {
      const done = (error: Error | null, bound: number) => (error ? reject(error) : resolve(bound));
      server.bindAsync(`127.0.0.1:${port}`, ServerCredentials.createInsecure(), done);
    });
  }
  const port = await listen(await freePort());

  /** Ends every connection and every call in it, and rejects new ones until `start`. */
  function stop(): void {
    for (const ended of subscriptions.values()) ended.abort();
    server.forceShutdown();
    batches.clear();
  }

  async function start(): Promise<void> {
    await listen(port);
  }

  return {
    url: `esdb://127.0.0.1:${port}?tls=false`,
    /** The same server as the leader of a cluster, for discovery. */
    clusterUrl: `esdb+discover://127.0.0.1:${port}?tls=false&maxDiscoverAttempts=2&discoveryInterval=20`,
    port,
    log,
    counts,
    /** Open calls for appends. */
    appendCalls: () => batches.size,
    /** Open subscriptions. */
    subscriptions: () => subscriptions.size,
    /** Commits the next appends, and never answers them. */
    loseReplies(appends: number): void {
      faults.lostReplies = appends;
    },
    /** Rejects the next appends as a node does that has just started. */
    refuse(appends: number): void {
      faults.refusals = appends;
    },
    /**
     * Stops answering while the connection stays open. False ends this; calls made meanwhile stay
     * unanswered.
     */
    hang(hung: boolean): void {
      faults.hung = hung;
    },
    /** Answers each append twice: the client no longer waits for the second answer. */
    doubleReplies(): void {
      faults.doubleReplies = true;
    },
    /** Holds back all data from a newly connected client, until the returned function is called. */
    holdFeatures(): () => void {
      const { promise, resolve } = Promise.withResolvers<void>();
      answerFeatures = promise;
      return resolve;
    },
    /** Lets each new client wait this long for its first data. */
    delayFeatures(ms: number): void {
      connectMs = ms;
    },
    /**
     * Becomes a follower that does not advance, and redirects calls that require the leader. It
     * keeps its subscriptions, and sends them nothing.
     */
    follow(leader: { port: number }): void {
      following = { leaderPort: leader.port, upTo: endOf() };
    },
    /**
     * Becomes a leader that was frozen and does not know of its successor yet: its reads show what
     * it has now, or had up to a position. Appends are those of the successor, and so are
     * subscriptions by default.
     */
    becomeStale({ subscriptions = false, upTo = endOf() } = {}): void {
      staleAt = upTo;
      subscriptionsAt = subscriptions ? staleAt : null;
    },
    lead(): void {
      following = null;
      staleAt = null;
      subscriptionsAt = null;
    },
    /** Reads nothing more from the append streams, so the client has to buffer its data. */
    stall() {
      for (const batch of batches) batch.pause();
    },
    /**
     * Commits at once, and answers only after the returned function is called. Drops repetitions of
     * an unanswered append.
     */
    holdReplies(): () => void {
      const { promise, resolve } = Promise.withResolvers<void>();
      holding = promise;
      return () => {
        holding = null;
        resolve();
      };
    },
    /** Calls it in each read, between the look at the log and the answer. */
    duringReads(action: () => Promise<unknown>): void {
      duringRead = action;
    },
    killAppendBatches() {
      for (const batch of batches) fail(batch, status.UNAVAILABLE, 'The node is shutting down');
    },
    /** Ends without an error, as a server that shuts down in good order. */
    endSubscriptions() {
      for (const [call, ended] of subscriptions) {
        ended.abort();
        call.end();
      }
    },
    failSubscriptions(code: status) {
      for (const [call, ended] of subscriptions) {
        ended.abort();
        fail(call, code, 'The subscription was dropped');
      }
    },
    stop,
    start,
    async disconnect() {
      stop();
      await start();
    },
    close: stop,
  };
}

function requiresLeader({ metadata }: { metadata: Metadata }): boolean {
  return metadata.get('requires-leader')[0] === 'true';
}

export type FakeEventStoreDb = Awaited<ReturnType<typeof startFakeEventStoreDb>>;
