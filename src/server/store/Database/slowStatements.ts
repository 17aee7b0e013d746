import { Clock, Context, Effect, type Fiber, Tracer } from "effect"
import { monotonicMillis } from "../../concurrency/monotonicMillis.ts"
import { CurrentRequestFacts } from "../../observability/RequestFacts.ts"
import { NO_REQUEST, RequestId } from "../../observability/RequestId.ts"
import { describeStatement } from "./describeStatement.ts"

/** From which duration a statement is slow, in milliseconds; 0: never. */
export const SlowStatementMillis = Context.Reference<number>(
  "countersign/server/store/Database/SlowStatementMillis",
  { defaultValue: () => 0 }
)

/** The name of the span around the current transaction, whose own span replaces it. */
export const TransactionCaller = Context.Reference<string | undefined>(
  "countersign/server/store/Database/TransactionCaller",
  { defaultValue: () => undefined }
)

/** The name of a fiber's current span; undefined if it has none. */
export const spanName = (fiber: Fiber.Fiber<unknown, unknown>): string | undefined => {
  const span = Context.getOrUndefined(fiber.context, Tracer.ParentSpan)
  return span?._tag === "Span" ? span.name : undefined
}

/** The name of the span that a statement belongs to, without spans of the client itself. */
const callerOf = (fiber: Fiber.Fiber<unknown, unknown>): string | null => {
  const name = spanName(fiber)
  return (name?.startsWith("sql.") ? undefined : name) ?? fiber.getRef(TransactionCaller) ?? null
}

/** A slow database makes every statement slow. Most lines per window; the next window's first line counts the rest. */
const MAX_LINES = 20
const WINDOW_MILLIS = 10_000

/**
 * Logs slow statements: their action, their duration, and the operation, span and request that they belong to. The duration is that of the
 * server's answer, including waits for locks and for earlier statements of the same connection.
 */
export const makeSlowStatementLog = Effect.gen(function* () {
  const slowMillis = yield* SlowStatementMillis
  const log = Effect.runForkWith(yield* Effect.context())
  if (slowMillis === 0) return undefined
  let windowEndsAt = 0
  let lines = 0
  let omitted = 0

  return (text: string, durationMillis: number, fiber: Fiber.Fiber<unknown, unknown>): void => {
    if (durationMillis < slowMillis) return
    const now = monotonicMillis(fiber.getRef(Clock.Clock))
    if (now >= windowEndsAt) {
      windowEndsAt = now + WINDOW_MILLIS
      lines = 0
    }
    if (lines === MAX_LINES) {
      omitted++
      return
    }
    lines++
    const request_id = fiber.getRef(RequestId)
    const statement = describeStatement(text)
    const facts = {
      statement,
      ms: Math.round(durationMillis),
      operation: fiber.getRef(CurrentRequestFacts)?.operation ?? null,
      span: callerOf(fiber),
      request_id: request_id === NO_REQUEST ? null : request_id,
      ...(omitted > 0 ? { omitted } : {})
    }
    omitted = 0
    log(Effect.logWarning(`Slow statement: ${statement}`, facts))
  }
})
