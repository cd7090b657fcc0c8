/**
 * Repairs how the driver `postgres` 3.4.9 handles a connection that is lost. As shipped, a
 * connection lost inside a transaction ends the process or leaves queries without an answer, and
 * statements of a dead transaction may run on another connection. docs/architecture.md has more.
 *
 * Also lets a pool use the connection that was used last (as shipped, it uses all in turn), opens
 * few connections for a burst of short queries, lets V8 free the memory of ended queries early,
 * takes a long parameter in parts, and closes a session that takes no writes.
 *
 * Upstream: issues 1066, 1133, 1154, 1186, 1189, 1193, 1208 and 1216 of porsager/postgres. Delete
 * this file, its step in set-up.ts and the check in src/adapters/postgres/connect.ts when a release
 * contains pull requests 1209, 1214, 1215 and 1218, and lost-connections and transactions-over-tls
 * in test/adapters/postgres pass on it. The watchdog (`answer_timeout`), the change of `drain` and the
 * end of a read-only session have no pull request.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** A text of the driver that occurs once, and its replacement. */
type Edit = readonly [shipped: string, ours: string];

const VERSION = '3.4.9';

const CONNECTION: Edit[] = [
  // The watchdog: closes a connection that sends no byte of an answer for `answer_timeout` seconds.
  [
    '      , connectTimer = timer(connectTimedOut, options.connect_timeout)\n',
    `      , connectTimer = timer(connectTimedOut, options.connect_timeout)
      , answerTimer = timer(() => lose(Errors.connection('CONNECTION_UNANSWERED', options, socket)), options.answer_timeout)
`,
  ],
  ['  let socket = null\n', '  let socket = null\n    , lost = null\n    , opened = false\n'],
  // A lost connection closes at once, so the pool does not choose it before its socket closes.
  ["    x.on('error', error)\n", "    x.on('error', lose)\n"],
  ["    socket.on('error', error)\n", "    socket.on('error', lose)\n"],
  // Over TLS, the end of a write may be reported after its answer. A transaction that sends nothing
  // at that moment keeps its connection.
  [
    '    !query && onopen(connection)\n',
    '    !query && !connection.reserved && onopen(connection)\n',
  ],
  // A closing connection takes no query: the next connection could answer it.
  [
    "      return queryError(q, Errors.connection('CONNECTION_DESTROYED', options))\n\n    if (stream)",
    `      return queryError(q, Errors.connection('CONNECTION_DESTROYED', options))

    if (!socket || !socket.writable)
      return queryError(q, lost || Errors.connection('CONNECTION_CLOSED', options))

    if (stream)`,
  ],
  [
    '        : (query = q, query.active = true)\n',
    '        : (query = q, query.active = true, answerTimer.start())\n',
  ],
  // The connection belongs to a transaction once BEGIN is sent, even if the socket's buffer is
  // full.
  [
    `      return write(toBuffer(q))
        && !q.describeFirst
        && !q.cursorFn
        && sent.length < max_pipeline
        && (!q.options.onexecute || q.options.onexecute(connection))
`,
    `      const room = write(toBuffer(q))
      if (q.options.onexecute)
        return q.options.onexecute(connection)

      return room
        && !q.describeFirst
        && !q.cursorFn
        && sent.length < max_pipeline
`,
  ],
  // A query that could not be built was never sent: it must not wait for another query's answer.
  [
    `    } catch (error) {
      sent.length === 0 && write(Sync)
`,
    `    } catch (error) {
      if (query !== q)
        return sent.remove(q), queryError(q, error), true

      sent.length === 0 && write(Sync)
`,
  ],
  [
    '  function write(x, fn) {\n',
    '  function write(x, fn) {\n    if (!socket)\n      return false\n\n',
  ],
  [
    `    errored(Errors.connection('CONNECT_TIMEOUT', options, socket))
    socket.destroy()
  }

  async function secure`,
    `    lose(Errors.connection('CONNECT_TIMEOUT', options, socket))
  }

  function lose(err) {
    lost = err
    error(err)
    if (!socket)
      return

    const dead = socket
    dead.destroy()
    closed()
    dead.on('error', noop)
  }

  async function secure`,
  ],
  [
    `      remaining = 0
      incomings = null
    }
  }
`,
    `      remaining = 0
      incomings = null
    }
    query ? answerTimer.start() : answerTimer.cancel()
  }
`,
  ],
  // A socket that still connects when its pool ends would connect, and stay.
  [
    "      socket.readyState === 'open' && socket.end(b().X().end())\n",
    "      socket.readyState === 'open' ? socket.end(b().X().end()) : socket.destroy()\n",
  ],
  // A pool that ended while it waited to reconnect opens no more connections.
  ['    setTimeout(connect, closedTime', '    setTimeout(() => initial && connect(), closedTime'],
  // Nothing of a lost connection survives into the next: no query, no byte, no answer.
  [
    `    clearImmediate(nextWriteTimer)
    socket.removeListener('data', data)
    socket.removeListener('connect', connected)
    idleTimer.cancel()
`,
    `    clearImmediate(nextWriteTimer)
    chunk = nextWriteTimer = null
    socket.removeListener('data', data)
    socket.removeListener('connect', connected)
    answerTimer.cancel()
    idleTimer.cancel()
`,
  ],
  [
    `    if (initial)
      return reconnect()

    !hadError && (query || sent.length) && error(Errors.connection('CONNECTION_CLOSED', options, socket))
    closedTime = performance.now()
    hadError && options.shared.retries++
`,
    `    if (initial && options.host[++retries])
      return lost = null, reconnect()

    const reason = lost || Errors.connection('CONNECTION_CLOSED', options)
    errored(reason)
    while (sent.length)
      queryError(sent.shift(), reason)
    query = results = errorResponse = final = lost = null
    result = new Result()
    rows = retries = 0
    ended && (ended(), ending = ended = null)
    closedTime = performance.now()
    opened || options.shared.retries++
    opened = false
`,
  ],
  [
    "    onclose(connection, Errors.connection('CONNECTION_CLOSED', options, socket))\n",
    '    onclose(connection, reason)\n',
  ],
  [
    '    connectTimer.cancel()\n\n    if (initial) {\n',
    '    connectTimer.cancel()\n    opened = true\n\n    if (initial) {\n',
  ],
  // A connection that has opened is busy with its first query, and no longer opening.
  [
    '{ onopen = noop, onend = noop, onclose = noop }',
    '{ onopen = noop, onready = noop, onend = noop, onclose = noop }',
  ],
  [
    '      initial && !initial.reserve && execute(initial)\n',
    '      initial && !initial.reserve && onready(connection, initial)\n',
  ],
  // After FATAL and PANIC the server closes the connection and sends no more answers. A session that
  // takes no writes (25006) has the default of its role or database from its begin: the next query
  // gets a new one.
  [
    `  function ErrorResponse(x) {
    if (query) {
      (query.cursorFn || query.describeFirst) && write(Sync)
      errorResponse = Errors.postgres(parseError(x))
    } else {
      errored(Errors.postgres(parseError(x)))
    }
`,
    `  function ErrorResponse(x) {
    const err = Errors.postgres(parseError(x))
    if (err.severity === 'FATAL' || err.severity === 'PANIC')
      return lose(err)

    if (err.code === '25006')
      end()

    if (query) {
      (query.cursorFn || query.describeFirst) && write(Sync)
      errorResponse = err
    } else {
      errored(err)
    }
`,
  ],
];

const BYTES: Edit[] = [
  // A text may come in parts, so that no long string is made of them.
  [
    '  str(x) {\n',
    `  str(x) {
    if (Array.isArray(x)) {
      fit(x.reduce((length, part) => length + Buffer.byteLength(part), 0))
      x.forEach(b.str)
      return b
    }
`,
  ],
];

const QUERY: Edit[] = [
  // With closures in their place, V8's young generation keeps ended queries with their rows: a third
  // of all that a busy service allocates is copied twice, and freed by a collection of the whole
  // heap.
  [
    `    this.resolve = x => (this.active = false, resolve(x))
    this.reject = x => (this.active = false, reject(x))

    this.active`,
    `    this.fulfil = resolve
    this.refuse = reject

    this.active`,
  ],
  [
    `  get origin() {
`,
    `  resolve(x) {
    this.active = false
    this.fulfil(x)
  }

  reject(x) {
    this.active = false
    this.refuse(x)
  }

  get origin() {
`,
  ],
];

const QUEUE: Edit[] = [
  [
    '    push: (x) => (xs.push(x), x),\n',
    `    push: (x) => (xs.push(x), x),
    pop: () => {
      const out = xs.pop()
      if (index === xs.length) {
        index = 0
        xs = []
      }
      return out
    },
`,
  ],
];

const INDEX: Edit[] = [
  // Two connections of a pool open at once, and one more for each 250 ms that a query waits. A query
  // waits for the first that is free. As shipped, a burst of 20 short queries opens 20 connections.
  // If one fails to open or is lost, each waiting query opens its own, as shipped.
  [
    `    if (closed.length)
      return connect(closed.shift(), query)

    busy.length`,
    `    if (closed.length) {
      queries.push(query)
      return grow()
    }

    busy.length`,
  ],
  [
    `  function onend(c) {
`,
    `  function grow(most = 2) {
    while (queries.length && closed.length && connecting.length < most)
      connect(closed.shift(), queries.shift())
    if (queries.length && closed.length)
      growth = growth || setTimeout(growFurther, 250)
  }

  function growFurther() {
    growth = null
    grow(Math.max(2, connecting.length + 1))
  }

  function onready(c, query) {
    go(c, query)
    grow()
  }

  function onend(c) {
`,
  ],
  [
    '    let max = Math.ceil(queries.length / (connecting.length + 1))\n',
    '    let max = closed.length ? 1 : Math.ceil(queries.length / (connecting.length + 1))\n',
  ],
  [
    `      : move(c, full)
  }

  function onclose(c, e) {
`,
    `      : move(c, full)
    grow()
  }

  function onclose(c, e) {
`,
  ],
  ['    queries.length && connect(c, queries.shift())\n', '    grow(Infinity)\n'],
  ['{ onopen, onend, onclose }))', '{ onopen, onready, onend, onclose }))'],
  ['  let ending = false\n', '  let ending = false\n    , growth = null\n'],
  // What waits for a connection when the pool ends gets one before, as shipped.
  [
    `    await 1
    let timer
`,
    `    await 1
    grow(Infinity)
    let timer
`,
  ],
  // The connection that was used last: its server process has everything in the CPU's caches.
  ['      return go(open.shift(), query)\n', '      return go(open.pop(), query)\n'],
  // Raise this number with every change of this file, also in connect.ts: it refuses an older
  // repair.
  ['  PostgresError,\n  toPascal,\n', '  PostgresError,\n  lostConnections: 7,\n  toPascal,\n'],
  ['    connect_timeout : 30,\n', '    connect_timeout : 30,\n    answer_timeout  : null,\n'],
  ["'connect_timeout', 'max_lifetime'", "'connect_timeout', 'answer_timeout', 'max_lifetime'"],
  // The loss of a held connection rejects its queue and its holder.
  [
    '  async function reserve() {\n',
    `  function hold(c, queue) {
    const held = { lost: null }
    held.closed = new Promise((_, reject) => c.onclose = error => {
      held.lost = error
      reject(error)
      while (queue.length)
        queue.shift().reject(error)
    })
    held.closed.catch(() => { /* noop */ })
    return held
  }

  async function reserve() {
`,
  ],
  [
    `    move(c, reserved)
    c.reserved = () => queue.length
`,
    `    const held = hold(c, queue)
    move(c, reserved)
    c.reserved = () => queue.length
`,
  ],
  [
    `    sql.release = () => {
      c.reserved = null
`,
    `    sql.release = () => {
      if (held.lost)
        return

      c.reserved = null
`,
  ],
  [
    `    function handler(q) {
      c.queue === full
        ? queue.push(q)
`,
    `    function handler(q) {
      held.lost
        ? q.reject(held.lost)
        : c.queue === full
        ? queue.push(q)
`,
  ],
  [
    `      , connection
      , prepare = null
`,
    `      , connection
      , held
      , last = null
      , over = false
      , prepare = null
`,
  ],
  ['        new Promise((_, reject) => connection.onclose = reject)\n', '        held.closed\n'],
  [
    `          : sql\`rollback\`
        )
`,
    `          : last = sql\`rollback\`
        ).catch(() => { /* the connection is lost, and the transaction with it */ })
`,
  ],
  ['          : await sql`commit`\n', '          : await (last = sql`commit`)\n'],
  [
    `        q.catch(e => uncaughtError || (uncaughtError = e))
        c.queue === full
`,
    `        q.catch(e => uncaughtError || (uncaughtError = e))
        if (held.lost || over)
          return q.reject(held.lost || Errors.generic('TRANSACTION_OVER', 'The transaction has ended'))

        over = q === last
        c.queue === full
`,
  ],
  [
    `      connection = c
      move(c, reserved)
`,
    `      connection = c
      held = hold(c, queries)
      move(c, reserved)
`,
  ],
];

/** Applies the edits to the shipped files. Safe to repeat. Throws if the files differ. */
export function patchPostgres(root: string): void {
  const folder = join(root, 'node_modules', 'postgres');
  const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    version: string;
  };
  if (version !== VERSION)
    throw new Error(
      `scripts/patch-postgres.ts repairs postgres ${VERSION}, and ${version} is installed: ` +
        'see there whether this release still needs it',
    );
  // The entry comes last: it has the mark by which connect.ts recognizes a complete repair.
  replaceIn(join(folder, 'src', 'connection.js'), CONNECTION);
  replaceIn(join(folder, 'src', 'bytes.js'), BYTES);
  replaceIn(join(folder, 'src', 'query.js'), QUERY);
  replaceIn(join(folder, 'src', 'queue.js'), QUEUE);
  replaceIn(join(folder, 'src', 'index.js'), INDEX);
}

function replaceIn(file: string, edits: Edit[]): void {
  const pristine = `${file}.shipped`;
  const before = readFileSync(file, 'utf8');
  const shipped = existsSync(pristine) ? readFileSync(pristine, 'utf8') : before;
  let text = shipped;
  for (const [from, to] of edits) {
    if (text.split(from).length !== 2)
      throw new Error(
        `${file} is not as postgres ${VERSION} ships it, so it stays unrepaired: ` +
          `run \`npm ci\`. Not found exactly once: ${JSON.stringify(from)}`,
      );
    text = text.replace(from, () => to);
  }
  if (text === before) return;
  if (!existsSync(pristine)) replaceFile(pristine, shipped);
  replaceFile(file, text);
}

/** Replaces a file atomically: a crash or a concurrent reader never meets half a file. */
function replaceFile(file: string, text: string): void {
  const fresh = `${file}.${process.pid}`;
  writeFileSync(fresh, text);
  renameSync(fresh, file);
}
