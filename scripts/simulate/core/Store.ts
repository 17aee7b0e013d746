import { SqlError } from "effect/sql"
import { BEGINNING } from "./Host.ts"
import type { RandomStream } from "./RandomStream.ts"
import type { Simulation } from "./Simulation.ts"

/** How long a transaction waits for a lock before deadlocks are searched for, in milliseconds, as in PostgreSQL. */
const DEADLOCK_MILLIS = 1_000

/** The pause of a statement between two of its parts, in milliseconds, while the store is not slow. */
const PAUSE_MILLIS = 0.3

/** The chance that a part of a statement is slow, and its longest pause then, in milliseconds. */
const STALL_CHANCE = 0.004
const STALL_MILLIS = 2_500

/** How long an asynchronous commit may stay unwritten, in milliseconds: three times `wal_writer_delay`. */
const WAL_WRITER_MILLIS = 600

/** A version of a row; without `row` it is deleted. */
interface Version<Row> {
  readonly commit: number
  readonly row: Row | undefined
}

/** All versions of one row that a snapshot may still see, oldest first, and its lock. */
class Cell<Row> {
  readonly key: string
  readonly group: string
  versions: Array<Version<Row>> = []
  lockedBy: Transaction | undefined
  waiters: Array<{ readonly transaction: Transaction; readonly resume: () => void }> = []

  constructor(key: string, group: string) {
    this.key = key
    this.group = group
  }
}

/** A table of the model. Rows are replaced, never changed. */
export class Table<Row> {
  readonly name: string
  /** The index: rows of one group can be read together. */
  readonly groupOf: (row: Row) => string
  readonly cells = new Map<string, Cell<Row>>()
  readonly groups = new Map<string, Set<Cell<Row>>>()

  constructor(name: string, groupOf: (row: Row) => string = () => "") {
    this.name = name
    this.groupOf = groupOf
  }

  /** The newest committed rows: what a statement would read that began now. */
  *committed(): Generator<readonly [string, Row]> {
    for (const [key, { versions }] of this.cells) {
      const row = versions.at(-1)?.row
      if (row !== undefined) yield [key, row]
    }
  }

  committedRow(key: string): Row | undefined {
    return this.cells.get(key)?.versions.at(-1)?.row
  }
}

/** What a statement waits for. */
export type Wait =
  | { readonly _tag: "Pause" }
  | { readonly _tag: "Lock"; readonly acquire: (resume: () => void) => boolean }

/** A statement of the model: it yields wherever a real one may have to wait, or others may commit. */
export type Statement<A> = (transaction: Transaction) => Generator<Wait, A, void>

/** The state of a statement that is running. */
interface Running {
  readonly abort: (error: SqlError.SqlError) => void
}

export const sqlError = (
  reason: "ConnectionError" | "StatementTimeoutError" | "LockTimeoutError" | "DeadlockError"
) => {
  const fields = { cause: reason, message: "simulated", operation: "execute" }
  switch (reason) {
    case "ConnectionError":
      return new SqlError.SqlError({ reason: new SqlError.ConnectionError(fields) })
    case "StatementTimeoutError":
      return new SqlError.SqlError({ reason: new SqlError.StatementTimeoutError(fields) })
    case "LockTimeoutError":
      return new SqlError.SqlError({ reason: new SqlError.LockTimeoutError(fields) })
    case "DeadlockError":
      return new SqlError.SqlError({ reason: new SqlError.DeadlockError(fields) })
  }
}

/**
 * A transaction at READ COMMITTED. Each statement sees what was committed when it began, and the transaction's own
 * writes. A row that it locks is read again, as others may have committed it since; the statement's other rows are still
 * those of its beginning.
 */
export class Transaction {
  readonly store: Store
  /** `now()` of PostgreSQL: when the transaction began, on the store's clock. */
  readonly startedAt: number
  /** `statement_timestamp()`. */
  statementAt: number
  /** When the current statement took its snapshot, on the clock of the simulation. Its first step may come much later. */
  snapshotAt: number
  /** `synchronous_commit = off`: the commit may be lost if the store crashes soon. */
  isAsynchronous = false
  isOpen = true
  #snapshot: number
  readonly #writes = new Map<
    Cell<never>,
    { readonly apply: (commit: number) => () => void; readonly row: unknown }
  >()
  /** Removes the versions of written rows that nobody can see any more. */
  readonly #trims = new Map<Cell<never>, () => void>()
  readonly #locks = new Set<Cell<never>>()
  readonly #notifications: Array<() => void> = []
  /** The transaction whose lock this one waits for. */
  waitsFor: Transaction | undefined

  constructor(store: Store) {
    this.store = store
    this.startedAt = store.clockMillis()
    this.statementAt = this.startedAt
    this.snapshotAt = store.simulation.now
    this.#snapshot = store.beginSnapshot()
  }

  /** Begins another statement, with a snapshot of its own. */
  beginStatement(): void {
    this.store.endSnapshot(this.#snapshot)
    this.statementAt = this.store.clockMillis()
    this.snapshotAt = this.store.simulation.now
    this.#snapshot = this.store.beginSnapshot()
  }

  /** Reads a row as of the statement's beginning. */
  get<Row>(table: Table<Row>, key: string): Row | undefined {
    const cell = table.cells.get(key)
    return cell === undefined ? undefined : this.#read(cell)
  }

  /** Reads the rows of a group as of the statement's beginning. */
  *scan<Row>(table: Table<Row>, group?: string): Generator<readonly [string, Row]> {
    const cells = group === undefined ? table.cells.values() : (table.groups.get(group) ?? [])
    for (const cell of cells) {
      const row = this.#read(cell)
      if (row !== undefined) yield [cell.key, row]
    }
  }

  /**
   * FOR UPDATE: waits for the row's lock and returns its newest version, or undefined if it was deleted or never
   * existed.
   */
  *lock<Row>(table: Table<Row>, key: string): Generator<Wait, Row | undefined, void> {
    const cell = table.cells.get(key)
    if (cell === undefined) return undefined
    while (cell.lockedBy !== undefined && cell.lockedBy !== this) {
      yield { _tag: "Lock", acquire: (resume) => this.#waitFor(cell, resume) }
    }
    this.#hold(cell)
    return this.#latest(cell)
  }

  /** FOR UPDATE SKIP LOCKED: "locked" if another transaction holds the lock. */
  tryLock<Row>(table: Table<Row>, key: string): Row | undefined | "locked" {
    const cell = table.cells.get(key)
    if (cell === undefined) return undefined
    if (cell.lockedBy !== undefined && cell.lockedBy !== this) return "locked"
    this.#hold(cell)
    return this.#latest(cell)
  }

  /** `pg_advisory_xact_lock`. */
  *advisoryLock(name: string): Generator<Wait, void, void> {
    const cell = this.store.advisoryCell(name)
    while (cell.lockedBy !== undefined && cell.lockedBy !== this) {
      yield { _tag: "Lock", acquire: (resume) => this.#waitFor(cell, resume) }
    }
    this.#hold(cell)
  }

  /** Writes a row that this transaction has locked, or inserts one. Undefined deletes it. */
  write<Row>(table: Table<Row>, key: string, row: Row | undefined): void {
    let cell = table.cells.get(key)
    if (cell === undefined) {
      if (row === undefined) return
      cell = new Cell<Row>(key, table.groupOf(row))
      table.cells.set(key, cell)
      const group = table.groups.get(cell.group) ?? new Set()
      table.groups.set(cell.group, group.add(cell))
    }
    const target = cell
    this.#hold(target)
    this.#writes.set(erased(target), {
      row,
      apply: (commit) => {
        const before = target.versions
        target.versions = [...before, { commit, row }]
        return () => {
          target.versions = target.versions.filter((version) => version.commit !== commit)
          if (target.versions.length === 0) remove(table, target)
        }
      }
    })
    this.#trims.set(erased(target), () => {
      target.versions = this.store.visibleVersions(target.versions)
      if (target.versions.length === 0) remove(table, target)
    })
  }
  /** Runs when, and if, the transaction commits. */
  onCommit(run: () => void): void {
    this.#notifications.push(run)
  }

  commit(): void {
    if (!this.isOpen) return
    this.isOpen = false
    this.store.endSnapshot(this.#snapshot)
    if (this.#writes.size > 0) {
      const commit = this.store.nextCommit()
      const undo = [...this.#writes.values()].map(({ apply }) => apply(commit))
      this.store.wrote(this.isAsynchronous, undo)
      for (const trim of this.#trims.values()) trim()
    }
    for (const run of this.#notifications) run()
    this.#release()
  }

  rollback(): void {
    if (!this.isOpen) return
    this.isOpen = false
    this.store.endSnapshot(this.#snapshot)
    for (const trim of this.#trims.values()) trim()
    this.#release()
  }

  #read<Row>(cell: Cell<Row>): Row | undefined {
    if (this.#writes.has(erased(cell))) return this.#own(cell)
    for (let index = cell.versions.length - 1; index >= 0; index--) {
      const version = cell.versions[index]
      if (version !== undefined && version.commit <= this.#snapshot) return version.row
    }
    return undefined
  }

  #latest<Row>(cell: Cell<Row>): Row | undefined {
    return this.#writes.has(erased(cell)) ? this.#own(cell) : cell.versions.at(-1)?.row
  }

  #own<Row>(cell: Cell<Row>): Row | undefined {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- `write` stored a row of this cell's own type
    return this.#writes.get(erased(cell))?.row as Row | undefined
  }

  #hold<Row>(cell: Cell<Row>): void {
    cell.lockedBy = this
    this.#locks.add(erased(cell))
  }

  #waitFor<Row>(cell: Cell<Row>, resume: () => void): boolean {
    if (cell.lockedBy === undefined) return false
    this.waitsFor = cell.lockedBy
    cell.waiters.push({
      transaction: this,
      resume: () => {
        this.waitsFor = undefined
        resume()
      }
    })
    return true
  }

  #release(): void {
    for (const cell of this.#locks) {
      cell.lockedBy = undefined
      const { waiters } = cell
      cell.waiters = []
      // All wake and try again; who comes first is decided by the order of the simulation.
      for (const { resume, transaction } of waiters) if (transaction.isOpen) resume()
    }
    this.#locks.clear()
  }
}

/** A cell of any table, as a key. */
const erased = <Row>(cell: Cell<Row>): Cell<never> =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- only its identity is used
  cell as unknown as Cell<never>

const remove = <Row>(table: Table<Row>, cell: Cell<Row>): void => {
  if (cell.versions.some(({ row }) => row !== undefined)) return
  if (table.cells.get(cell.key) === cell) table.cells.delete(cell.key)
  const group = table.groups.get(cell.group)
  group?.delete(cell)
  if (group?.size === 0) table.groups.delete(cell.group)
}

/** The connections of the store see when it stops. */
interface Session {
  readonly end: () => void
}

/**
 * A model of PostgreSQL in memory, as far as the engine's statements depend on it: READ COMMITTED with a snapshot for
 * each statement, row locks with SKIP LOCKED, advisory locks, deadlocks, sequences that are not undone, commits in
 * another order than inserts, asynchronous commits that a crash loses, statement and lock time-outs.
 */
export class Store {
  readonly simulation: Simulation
  readonly random: RandomStream
  isRunning = true
  /** How far the store's clock is ahead of the simulation's time, in milliseconds. */
  skewMillis = 0
  /** While positive, statements take up to this many milliseconds more. */
  slowMillis = 0
  /** Counts what happened, to know how much of the semantics a run has used. */
  readonly counts = { commits: 0, lockWaits: 0, deadlocks: 0, timeouts: 0, lostCommits: 0 }
  readonly #sessions = new Set<Session>()
  readonly #snapshots = new Map<number, number>()
  readonly #sequences = new Map<string, number>()
  readonly #advisory = new Map<string, Cell<unknown>>()
  #commit = 0
  #unwritten: Array<() => void> = []
  #isFrozen = false
  #deferred: Array<() => void> = []
  #incarnation = 0

  constructor(simulation: Simulation) {
    this.simulation = simulation
    this.random = simulation.random.fork("store")
  }

  /** The store's clock, in milliseconds since the Unix epoch. */
  clockMillis(): number {
    return BEGINNING + this.simulation.now + this.skewMillis
  }

  nextval(sequence: string): number {
    const value = (this.#sequences.get(sequence) ?? 0) + 1
    this.#sequences.set(sequence, value)
    return value
  }

  /** Schedules an event of the server: it waits while the server is frozen, and never happens after it has stopped. */
  after(delayMillis: number, run: () => void): () => void {
    const incarnation = this.#incarnation
    let cancelled = false
    const whenRunning = () => {
      if (cancelled || incarnation !== this.#incarnation) return
      if (this.#isFrozen) this.#deferred.push(whenRunning)
      else run()
    }
    const cancel = this.simulation.schedule(delayMillis, whenRunning)
    return () => {
      cancelled = true
      cancel()
    }
  }

  addSession(session: Session): () => void {
    this.#sessions.add(session)
    return () => void this.#sessions.delete(session)
  }

  /** Runs a statement in a transaction. `done` gets its result, or the error that ended it, at the server. */
  execute<A>(
    transaction: Transaction,
    statement: Statement<A>,
    timeouts: { readonly statementMillis: number; readonly lockMillis: number },
    done: (result: { readonly value: A } | { readonly error: SqlError.SqlError }) => void
  ): Running {
    const run = statement(transaction)
    let isOver = false
    let cancelWait = () => {}
    const end = (result: { readonly value: A } | { readonly error: SqlError.SqlError }) => {
      if (isOver) return
      isOver = true
      cancelWait()
      cancelTimeout()
      done(result)
    }
    const abort = (error: SqlError.SqlError) => {
      if (isOver) return
      transaction.rollback()
      end({ error })
    }
    const cancelTimeout = this.after(timeouts.statementMillis, () => {
      this.counts.timeouts++
      abort(sqlError("StatementTimeoutError"))
    })
    const advance = () => {
      // A crash ends transactions without ending their statements one by one.
      if (isOver || !transaction.isOpen) return
      cancelWait()
      const next = run.next()
      if (next.done === true) {
        return end({ value: next.value })
      }
      if (next.value._tag === "Pause") {
        cancelWait = this.after(this.#pauseMillis(), advance)
        return
      }
      const waits = next.value.acquire(() => {
        cancelWait()
        cancelWait = this.after(this.random.next() * PAUSE_MILLIS, advance)
      })
      if (!waits) return advance()
      this.counts.lockWaits++
      const cancels: Array<() => void> = []
      cancelWait = () => cancels.forEach((cancel) => cancel())
      cancels.push(
        this.after(DEADLOCK_MILLIS, () => {
          if (!isDeadlocked(transaction)) return
          this.counts.deadlocks++
          abort(sqlError("DeadlockError"))
        })
      )
      if (timeouts.lockMillis > 0) {
        cancels.push(this.after(timeouts.lockMillis, () => abort(sqlError("LockTimeoutError"))))
      }
    }
    cancelWait = this.after(this.#pauseMillis(), advance)
    return { abort }
  }

  /** Mostly short. Some statements are slow at any time: a checkpoint, a cold page, a busy disk. */
  #pauseMillis(): number {
    const longest =
      this.slowMillis > 0 ? this.slowMillis : this.random.chance(STALL_CHANCE) ? STALL_MILLIS : PAUSE_MILLIS
    return this.random.logarithmic(PAUSE_MILLIS / 100, longest)
  }

  freeze(): void {
    this.#isFrozen = true
  }

  thaw(): void {
    this.#isFrozen = false
    const deferred = this.#deferred
    this.#deferred = []
    for (const run of deferred) this.simulation.schedule(this.random.next(), run)
  }

  /** Ends all sessions and their transactions; what was committed stays, except recent asynchronous commits. */
  crash(): void {
    this.isRunning = false
    this.#incarnation++
    this.#deferred = []
    for (const session of this.#sessions) session.end()
    this.#sessions.clear()
    this.#snapshots.clear()
    this.counts.lostCommits += this.#unwritten.length
    for (const undo of this.#unwritten.toReversed()) undo()
    this.#unwritten = []
  }

  start(): void {
    this.isRunning = true
  }

  /** Begins a transaction outside any connection. */
  begin(): Transaction {
    return new Transaction(this)
  }

  beginSnapshot(): number {
    this.#snapshots.set(this.#commit, (this.#snapshots.get(this.#commit) ?? 0) + 1)
    return this.#commit
  }

  endSnapshot(snapshot: number): void {
    const count = this.#snapshots.get(snapshot) ?? 0
    if (count <= 1) this.#snapshots.delete(snapshot)
    else this.#snapshots.set(snapshot, count - 1)
  }

  nextCommit(): number {
    this.counts.commits++
    return ++this.#commit
  }

  advisoryCell(name: string): Cell<unknown> {
    const found = this.#advisory.get(name) ?? new Cell<unknown>(name, "")
    this.#advisory.set(name, found)
    return found
  }

  /** A synchronous commit writes all earlier commits to the disk too. */
  wrote(isAsynchronous: boolean, undo: ReadonlyArray<() => void>): void {
    if (!isAsynchronous) {
      this.#unwritten = []
      return
    }
    const undoAll = () => undo.forEach((one) => one())
    this.#unwritten.push(undoAll)
    this.after(WAL_WRITER_MILLIS, () => {
      const index = this.#unwritten.indexOf(undoAll)
      if (index >= 0) this.#unwritten.splice(0, index + 1)
    })
  }

  /** The versions that a snapshot in use, or a later one, may see. A crash may bring back the one before the last. */
  visibleVersions<Row>(versions: Array<Version<Row>>): Array<Version<Row>> {
    let oldest = this.#commit
    for (const snapshot of this.#snapshots.keys()) oldest = Math.min(oldest, snapshot)
    const last = versions.at(-1)
    if (last === undefined) return versions
    if (this.#unwritten.length > 0)
      return versions.length > KEPT_VERSIONS ? versions.slice(-KEPT_VERSIONS) : versions
    let first = versions.length - 1
    while (first > 0 && (versions[first]?.commit ?? 0) > oldest) first--
    const visible = first === 0 ? versions : versions.slice(first)
    return visible.length === 1 && last.row === undefined ? [] : visible
  }
}

/** Versions kept of a row while a crash could still undo commits. */
const KEPT_VERSIONS = 16

/** Whether a transaction waits for itself. */
const isDeadlocked = (transaction: Transaction): boolean => {
  const seen = new Set<Transaction>()
  for (let next = transaction.waitsFor; next !== undefined; next = next.waitsFor) {
    if (next === transaction) return true
    if (seen.has(next)) return false
    seen.add(next)
  }
  return false
}
