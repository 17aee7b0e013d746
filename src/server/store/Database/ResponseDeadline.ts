import type { PgConnection } from "@effect/sql-pg"
import { Context, Duration, Effect, Exit, type Fiber, type Scope } from "effect"
import type { SqlError } from "effect/sql"
import type { Duplex } from "node:stream"
import { errorsOf } from "../../observability/errorsOf.ts"
import { isReadOnlyError } from "../databaseErrors.ts"
import { driverSocket } from "./driverSocket.ts"

/** How often connections are checked while statements wait for the server. */
const CHECK_MILLIS = 500

/** A check that runs so long after the one before follows a pause of the process, in which it could not read responses. It closes nothing. */
const PAUSE_MILLIS = 4 * CHECK_MILLIS

/** After a loss, the first statement of a connection takes unusually long from this share of the deadline on: 2 of 12 seconds. */
const UNUSUAL_SHARE = 1 / 6

/**
 * Whether statements have no deadline. Only for statements that also disable `statement_timeout`: the server does not
 * end them, so a slow statement looks the same as one on a dead connection.
 */
export const NoResponseDeadline = Context.Reference<boolean>(
  "countersign/server/store/Database/NoResponseDeadline",
  { defaultValue: () => false }
)

/** The statements under way on one connection. */
interface Pending {
  readonly socket: Duplex
  /** Statements sent, without statements that have no deadline. */
  count: number
  /** Since when the server owes a response: the last one, or when the first of the statements under way was sent, in milliseconds. */
  silentSince: number
  /** When the server first and last finished a statement on this connection; undefined before the first. */
  firstResponseAt: number | undefined
  lastResponseAt: number | undefined
}

/**
 * Closes connections on which the server stops responding.
 *
 * A connection can die without a FIN or RST: after a network partition, the failover of a database, or when a load
 * balancer drops its state. The operating system retransmits for a quarter of an hour, and a TCP proxy that
 * acknowledges everything hides the loss permanently. The server's `statement_timeout` does not help, because the
 * server never sees the statement.
 */
export interface ResponseDeadline {
  /** Runs a statement of a connection. If the server responds to nothing on it in time, the connection closes and the statement fails. */
  readonly guard: <A>(
    connection: PgConnection.PgConnection,
    statement: Effect.Effect<A, SqlError.SqlError>,
    /** The text of the statement. */
    text: string
  ) => Effect.Effect<A, SqlError.SqlError>
  /** Closes every connection that has run a statement. Statements under way fail. */
  readonly closeAll: () => void
}

/**
 * `millis`: longer than `statement_timeout`, so that the server itself ends a slow statement. `onEnd` gets the duration of each statement
 * that ends by itself. `onReadOnly` runs when the server rejects a statement because it is read-only, `onClose` when a connection has
 * closed.
 */
export const makeResponseDeadline = (
  millis: number,
  onEnd: (text: string, durationMillis: number, fiber: Fiber.Fiber<unknown, unknown>) => void = () =>
    undefined,
  onReadOnly: () => void = () => undefined,
  onClose: () => void = () => undefined
): Effect.Effect<ResponseDeadline, never, Scope.Scope> =>
  Effect.gen(function* () {
    const log = Effect.runForkWith(yield* Effect.context())
    /** Every open connection that has run a statement. */
    const connections = new Map<Duplex, Pending>()
    let timer: NodeJS.Timeout | undefined
    let checkedAt = 0
    /** The last loss: connections that were open at `before` may be lost too, and are closed until `until` if they are silent. */
    let loss = { before: Number.NEGATIVE_INFINITY, until: Number.NEGATIVE_INFINITY }

    const check = () => {
      const now = performance.now()
      const wasPaused = now - checkedAt >= PAUSE_MILLIS
      checkedAt = now
      // Responses that arrived meanwhile are read before the next check.
      if (wasPaused) return
      const waiting = [...connections.values()].filter(({ count }) => count > 0)
      if (waiting.some((connection) => isOverdue(connection, now))) {
        loss = { before: now - millis, until: now + millis }
      }
      if (now < loss.until) closeSilent(now)
      if (waiting.length > 0) return
      clearInterval(timer)
      timer = undefined
    }

    const isOverdue = ({ count, silentSince }: Pending, now: number) =>
      count > 0 && now - silentSince >= millis

    /** Whether the server has not responded on a connection for this long. Also true before its first response. */
    const isSilentFor = ({ lastResponseAt }: Pending, now: number, duration: number) =>
      lastResponseAt === undefined || now - lastResponseAt >= duration

    const isOld = ({ firstResponseAt }: Pending) =>
      firstResponseAt === undefined || firstResponseAt <= loss.before

    /**
     * Closes the dead connections, and the unused ones that have been silent for as long: the same loss has probably affected them, and
     * their next statement would wait for a whole deadline. So would a statement that was sent some time after the loss. It does not if
     * none of the older connections has responded lately: then all of them are lost. A connection without any response, whose age is
     * unknown, is one of them if its statement takes unusually long.
     */
    const closeSilent = (now: number) => {
      const isWholeLoss = [...connections.values()].every(
        (connection) => !isOld(connection) || isSilentFor(connection, now, millis / 2)
      )
      const isLost = (connection: Pending) =>
        connection.lastResponseAt === undefined
          ? isWholeLoss && now - connection.silentSince >= millis * UNUSUAL_SHARE
          : isOld(connection) &&
            isSilentFor(connection, now, millis) &&
            (connection.count === 0 || isWholeLoss)
      let closed = 0
      for (const connection of connections.values()) {
        if (!isOverdue(connection, now) && !isLost(connection)) continue
        connection.socket.destroy()
        closed++
      }
      if (closed === 0) return
      log(
        Effect.logWarning(
          `Closed ${closed} lost database connections: the server has not responded for ${Duration.format(Duration.millis(millis))}`
        )
      )
    }

    const pendingOf = (socket: Duplex): Pending => {
      const known = connections.get(socket)
      if (known !== undefined) return known
      const pending: Pending = {
        socket,
        count: 0,
        silentSince: 0,
        firstResponseAt: undefined,
        lastResponseAt: undefined
      }
      connections.set(socket, pending)
      socket.once("close", () => {
        connections.delete(socket)
        onClose()
      })
      return pending
    }

    const begin = (pending: Pending) => {
      if (pending.count++ === 0) pending.silentSince = performance.now()
      if (timer !== undefined) return
      checkedAt = performance.now()
      timer = setInterval(check, CHECK_MILLIS).unref()
    }

    const end = (pending: Pending) => {
      pending.count--
      pending.silentSince = performance.now()
      pending.lastResponseAt = pending.silentSince
      pending.firstResponseAt ??= pending.silentSince
    }

    const guard = <A>(
      connection: PgConnection.PgConnection,
      statement: Effect.Effect<A, SqlError.SqlError>,
      text: string
    ): Effect.Effect<A, SqlError.SqlError> =>
      Effect.withFiber((fiber) => {
        if (fiber.getRef(NoResponseDeadline)) return statement
        const pending = pendingOf(driverSocket(connection))
        begin(pending)
        const sentAt = performance.now()
        return Effect.onExit(statement, (exit) => {
          if (!Exit.hasInterrupts(exit)) {
            return Effect.sync(() => {
              end(pending)
              onEnd(text, pending.silentSince - sentAt, fiber)
              if (Exit.isFailure(exit) && errorsOf(exit.cause).some(isReadOnlyError)) onReadOnly()
            })
          }
          // The caller was interrupted, but the server may still execute the statement, and responds to the next one
          // only afterwards. So a further statement shows whether the connection still works: without it, statements
          // that are all interrupted early would hide a dead connection.
          return Effect.sync(() =>
            log(
              Effect.ensuring(
                Effect.exit(connection.query("SELECT 1")),
                Effect.sync(() => end(pending))
              )
            )
          )
        })
      })

    yield* Effect.addFinalizer(() => Effect.sync(() => clearInterval(timer)))
    const closeAll = () => {
      for (const { socket } of connections.values()) socket.destroy()
    }
    return { guard, closeAll }
  })
