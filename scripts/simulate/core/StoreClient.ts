import { Effect } from "effect"
import type { SqlError } from "effect/sql"
import type { Host } from "./Host.ts"
import type { RandomStream } from "./RandomStream.ts"
import { sqlError, type Statement, type Store, Transaction } from "./Store.ts"

/** As `statement_timeout` of the service's connections. */
const STATEMENT_MILLIS = 10_000

/** After this much silence the service closes a connection that it waits for. */
const RESPONSE_MILLIS = 12_000

/** How long the service waits for a new connection. */
const CONNECT_MILLIS = 5_000

/** After this time TCP keep-alive closes an idle connection whose peer is silent. */
const KEEP_ALIVE_MILLIS = 30_000

/** As `idle_in_transaction_session_timeout` of callers. */
const IDLE_IN_TRANSACTION_MILLIS = 10_000

type Result<A> = { readonly value: A } | { readonly error: SqlError.SqlError }

/** The network between the hosts and the store. */
export class StoreNetwork {
  readonly store: Store
  /** The longest time that a message takes, in milliseconds. */
  latencyMillis = 0.5
  /** Hosts that cannot open connections to the store. */
  readonly unreachableFrom = new Set<Host>()
  /** The chance that an answer to a host is lost together with its connection, after the server has done its work. */
  readonly answerLoss = new Map<Host, number>()
  /** How much longer messages of a host take at most, in milliseconds, on the share of its connections that is slow. */
  readonly delays = new Map<Host, { readonly millis: number; readonly share: number }>()
  readonly #connections = new Set<Connection>()

  constructor(store: Store) {
    this.store = store
  }

  add(connection: Connection): void {
    this.#connections.add(connection)
  }

  remove(connection: Connection): void {
    this.#connections.delete(connection)
  }

  /** The connections of a host, or of all hosts. */
  connections(host?: Host): ReadonlyArray<Connection> {
    return [...this.#connections].filter((one) => host === undefined || one.host === host)
  }
}

/** A connection of a host to the store, with one statement at a time. */
export class Connection {
  readonly host: Host
  readonly network: StoreNetwork
  /** Whether its messages disappear, while both ends believe that it is open. */
  isSilent = false
  isOpen = true
  #transaction: Transaction | undefined
  #isExplicit = false
  #cancelIdle = () => {}
  #fail: ((error: SqlError.SqlError) => void) | undefined
  readonly #removeSession: () => void
  readonly #onClose: Array<() => void> = []
  readonly #random: RandomStream
  /** Decides whether it is one of the slow connections. */
  readonly #place: number
  readonly #idleMillis: number

  constructor(host: Host, network: StoreNetwork, idleMillis = IDLE_IN_TRANSACTION_MILLIS) {
    this.host = host
    this.network = network
    this.#random = host.random
    this.#place = host.random.next()
    this.#idleMillis = idleMillis
    network.add(this)
    this.#removeSession = network.store.addSession({
      end: () => {
        this.#endTransaction()
        this.reset()
      }
    })
    host.onDeath(() => {
      if (!this.isOpen) return
      // The operating system of a killed process closes its connections.
      this.close()
    })
  }

  onClose(run: () => void): void {
    this.#onClose.push(run)
  }

  /**
   * Sends a statement, or the end of a transaction. `explicit`: the statement is part of a transaction that stays open.
   * Calls `done` once, on the host. Returns a function that asks the server to cancel the statement.
   */
  send<A>(
    request: Statement<A>,
    options: { readonly lockMillis: number; readonly explicit: boolean },
    done: (result: Result<A>) => void
  ): () => void {
    const { store } = this.network
    let running: { readonly abort: (error: SqlError.SqlError) => void } | undefined
    const respond = this.#exchange(done, (answer) => {
      this.#cancelIdle()
      const transaction = this.#beginStatement(options.explicit)
      const timeouts = { statementMillis: STATEMENT_MILLIS, lockMillis: options.lockMillis }
      running = store.execute(transaction, request, timeouts, (result) => {
        if ("error" in result) {
          this.#endTransaction()
          return answer(result)
        }
        if (options.explicit) {
          this.#awaitNext()
          return answer(result)
        }
        // The commit waits for the disk.
        store.after(this.#random.next(), () => {
          if (!transaction.isOpen) return
          this.#transaction = undefined
          transaction.commit()
          answer(result)
        })
      })
    })
    respond()
    // A cancel request goes over a connection of its own.
    return () =>
      void store.after(this.#latency(), () => {
        if (!this.network.unreachableFrom.has(this.host)) running?.abort(sqlError("StatementTimeoutError"))
      })
  }

  /** Ends a transaction. */
  end(how: "commit" | "rollback", done: (result: Result<void>) => void): void {
    this.#exchange(done, (answer) => {
      this.#cancelIdle()
      const transaction = this.#transaction
      if (transaction === undefined || !transaction.isOpen)
        return answer({ error: sqlError("ConnectionError") })
      this.network.store.after(this.#random.next(), () => {
        if (!transaction.isOpen) return
        this.#transaction = undefined
        this.#isExplicit = false
        if (how === "commit") transaction.commit()
        else transaction.rollback()
        answer({ value: undefined })
      })
    })()
  }

  /** Prepares one request with its response. `serve` runs on the server, when the request arrives. */
  #exchange<A>(
    done: (result: Result<A>) => void,
    serve: (answer: (result: Result<A>) => void) => void
  ): () => void {
    let isOver = false
    const finish = (result: Result<A>) => {
      if (isOver) return
      isOver = true
      cancelDeadline()
      this.#fail = undefined
      done(result)
    }
    const cancelDeadline = this.host.after(RESPONSE_MILLIS, () => {
      this.close()
      finish({ error: sqlError("ConnectionError") })
    })
    this.#fail = (error) => finish({ error })
    return () => {
      if (this.isSilent) return
      this.network.store.after(this.#latency(), () => {
        if (!this.isOpen || this.isSilent) return
        serve((result) => {
          if (!this.isOpen || this.isSilent) return
          if (this.#random.chance(this.network.answerLoss.get(this.host) ?? 0)) return this.reset()
          this.host.after(this.#latency(), () => {
            if (this.isOpen && !this.isSilent) finish(result)
          })
        })
      })
    }
  }

  #beginStatement(explicit: boolean): Transaction {
    if (this.#transaction === undefined || !this.#transaction.isOpen) {
      this.#transaction = new Transaction(this.network.store)
      this.#isExplicit = explicit
    } else this.#transaction.beginStatement()
    return this.#transaction
  }

  #awaitNext(): void {
    this.#cancelIdle = this.network.store.after(this.#idleMillis, () => {
      this.#endTransaction()
      this.reset()
    })
  }

  #endTransaction(): void {
    this.#transaction?.rollback()
    this.#transaction = undefined
  }

  /** From now on its messages disappear. */
  silence(): void {
    if (this.isSilent) return
    this.isSilent = true
    this.host.after(KEEP_ALIVE_MILLIS, () => {
      const fail = this.#fail
      this.close()
      fail?.(sqlError("ConnectionError"))
    })
  }

  /** The other end, or the network, closes the connection: the host gets an error, unless messages disappear. */
  reset(): void {
    if (!this.isOpen || this.isSilent) return
    this.isOpen = false
    this.#leave()
    const fail = this.#fail
    if (fail !== undefined) this.host.after(this.#latency(), () => fail(sqlError("ConnectionError")))
    for (const run of this.#onClose) this.host.after(this.#latency(), run)
  }

  /** The host closes the connection. A statement that the server is executing may still commit. */
  close(): void {
    if (!this.isOpen) return
    this.isOpen = false
    this.#leave()
    for (const run of this.#onClose) run()
  }

  #leave(): void {
    this.network.remove(this)
    // Without a word from the host, the server ends the transaction only after its time-out.
    if (this.isSilent) return
    this.#cancelIdle()
    if (this.#isExplicit) this.#endTransaction()
    // A statement that the server is executing ends with the server at the latest, and so do its locks.
    if (this.#transaction?.isOpen !== true) this.#removeSession()
  }

  #latency(): number {
    const delay = this.network.delays.get(this.host)
    const isSlow = delay !== undefined && this.#place < delay.share
    return (
      this.#random.next() * this.network.latencyMillis +
      (isSlow ? this.#random.between(0.5, 1) * delay.millis : 0)
    )
  }
}

/** A pool of connections of one host. */
export class StoreClient {
  readonly host: Host
  readonly network: StoreNetwork
  readonly #limit: number
  readonly #lockMillis: number
  readonly #idleMillis: number | undefined
  #open = 0
  readonly #idle: Array<Connection> = []
  readonly #waiting: Array<(result: Result<Connection>) => void> = []

  /** `lockMillis`: the lock time-out; 0 is none. `idleMillis`: how long a transaction may wait for its next statement. */
  constructor(
    host: Host,
    network: StoreNetwork,
    options: { readonly connections: number; readonly lockMillis: number; readonly idleMillis?: number }
  ) {
    this.host = host
    this.network = network
    this.#limit = options.connections
    this.#lockMillis = options.lockMillis
    this.#idleMillis = options.idleMillis
  }

  /** Runs one statement, which commits by itself. */
  statement<A>(name: string, statement: Statement<A>): Effect.Effect<A, SqlError.SqlError> {
    return Effect.callback((resume) => {
      let cancel = () => {}
      let isOver = false
      this.#acquire((acquired) => {
        if ("error" in acquired) {
          if (!isOver) resume(Effect.fail(acquired.error))
          return
        }
        const connection = acquired.value
        if (isOver) return this.#putBack(connection)
        cancel = connection.send(statement, { lockMillis: this.#lockMillis, explicit: false }, (result) => {
          this.#putBack(connection)
          if (isOver) return
          isOver = true
          if ("error" in result) {
            this.host.simulation.log(() => `${this.host.name}: ${name} fails: ${result.error.reason._tag}`)
            resume(Effect.fail(result.error))
          } else resume(Effect.succeed(result.value))
        })
      })
      return Effect.sync(() => {
        if (isOver) return
        isOver = true
        cancel()
      })
    })
  }

  /** Runs statements in one transaction, with pauses between them in which others commit. */
  transaction<A>(
    use: (
      execute: <B>(statement: Statement<B>) => Effect.Effect<B, SqlError.SqlError>
    ) => Effect.Effect<A, SqlError.SqlError>
  ): Effect.Effect<A, SqlError.SqlError> {
    const request = <B>(send: (done: (result: Result<B>) => void) => void) =>
      Effect.callback<B, SqlError.SqlError>((resume) =>
        send((result) => resume("error" in result ? Effect.fail(result.error) : Effect.succeed(result.value)))
      )
    return Effect.flatMap(this.#acquired, (connection) =>
      use((statement) =>
        request(
          (done) => void connection.send(statement, { lockMillis: this.#lockMillis, explicit: true }, done)
        )
      ).pipe(
        Effect.tap(request((done) => connection.end("commit", done))),
        Effect.onExit((exit) =>
          Effect.sync(() => {
            if (exit._tag === "Failure") connection.close()
            this.#putBack(connection)
          })
        )
      )
    )
  }

  /** Reserves a connection, for a listener. */
  reserve(done: (result: Result<Connection>) => void): void {
    this.#acquire(done)
  }

  get #acquired(): Effect.Effect<Connection, SqlError.SqlError> {
    return Effect.callback((resume) => {
      let isOver = false
      this.#acquire((result) => {
        if (isOver) {
          if ("value" in result) this.#putBack(result.value)
          return
        }
        isOver = true
        resume("error" in result ? Effect.fail(result.error) : Effect.succeed(result.value))
      })
      return Effect.sync(() => {
        isOver = true
      })
    })
  }

  #acquire(done: (result: Result<Connection>) => void): void {
    const connection = this.#idle.pop()
    if (connection !== undefined) return done({ value: connection })
    if (this.#open >= this.#limit) {
      this.#waiting.push(done)
      return
    }
    this.#open++
    this.#connect(done)
  }

  #connect(done: (result: Result<Connection>) => void): void {
    const { host, network } = this
    const refuse = () => {
      this.#open--
      done({ error: sqlError("ConnectionError") })
      this.#admitWaiting()
    }
    if (network.unreachableFrom.has(host)) {
      host.after(CONNECT_MILLIS, refuse)
      return
    }
    // The server, if it is frozen, does not answer: the host gives up after its time-out.
    let isOver = false
    const cancelDeadline = host.after(CONNECT_MILLIS, () => {
      isOver = true
      refuse()
    })
    if (!network.store.isRunning) {
      cancelDeadline()
      host.after(this.#latency(), refuse)
      return
    }
    network.store.after(this.#latency(), () => {
      host.after(this.#latency(), () => {
        if (isOver) return
        isOver = true
        cancelDeadline()
        if (!network.store.isRunning) return refuse()
        const connection = new Connection(host, network, this.#idleMillis)
        connection.onClose(() => this.#closed(connection))
        done({ value: connection })
      })
    })
  }

  #putBack(connection: Connection): void {
    if (!connection.isOpen) return
    const next = this.#waiting.shift()
    if (next === undefined) this.#idle.push(connection)
    else next({ value: connection })
  }

  #closed(connection: Connection): void {
    this.#open--
    const index = this.#idle.indexOf(connection)
    if (index >= 0) this.#idle.splice(index, 1)
    this.#admitWaiting()
  }

  #admitWaiting(): void {
    if (this.#open >= this.#limit) return
    const next = this.#waiting.shift()
    if (next === undefined) return
    this.#open++
    this.#connect(next)
  }

  #latency(): number {
    return this.host.random.next() * this.network.latencyMillis
  }
}
