import { Effect, Redacted, Schedule, Schema, type Scope } from "effect"
import { randomBytes } from "node:crypto"
import { type CliProcess, spawnCli } from "../../../test/support/process.ts"

/** A service process that the faults happen to. */
export interface ServiceUnderTest {
  readonly url: string
  /** The admin key that it created, if its database was empty. */
  readonly firstKey: Redacted.Redacted | undefined
  readonly process: CliProcess
  /** Its log so far. */
  readonly log: Effect.Effect<string>
  /** Whether `/readyz` returns 200. */
  readonly isReady: Effect.Effect<boolean>
}

/** The environment of every service: limits off, and a receiver on loopback allowed. */
export const serviceEnvironment = (): Readonly<Record<string, string>> => ({
  PORT: "0",
  COUNTERSIGN_MASTER_KEY: randomBytes(32).toString("base64"),
  COUNTERSIGN_EGRESS_ALLOW: "127.0.0.0/8",
  COUNTERSIGN_EGRESS_HTTP: "true",
  COUNTERSIGN_RATE_LIMIT_PER_SECOND: "0",
  COUNTERSIGN_ORGANIZATION_RATE_LIMIT_PER_SECOND: "0",
  COUNTERSIGN_NOTIFY_HOST_RATE_PER_SECOND: "0",
  COUNTERSIGN_NOTIFY_HOST_TOTAL_RATE_PER_SECOND: "0",
  COUNTERSIGN_NOTIFY_NETWORK_RATE_PER_SECOND: "0",
  COUNTERSIGN_NOTIFY_NETWORK_TOTAL_RATE_PER_SECOND: "0"
})

/** The longest orderly stop: the drain, and the shutdown of an embedded server. */
const STOP_TIMEOUT = "30 seconds"

/** Starts `countersign serve`, and stops it in order when the scope closes, so that no embedded server is left. */
export const startService = (
  environment: Readonly<Record<string, string>>,
  /** The program to run. Default: this checkout. */
  program?: string
): Effect.Effect<ServiceUnderTest, never, Scope.Scope> =>
  Effect.gen(function* () {
    const service = yield* spawnCli(["serve"], environment, program)
    yield* Effect.addFinalizer(() =>
      service.kill("SIGTERM").pipe(Effect.andThen(service.ended), Effect.timeoutOption(STOP_TIMEOUT))
    )
    const out = yield* service.waitForStdout(/database +.+\n(?:\n {2}First admin key.*\n\n {4}csk_\w+\n)?/)
    const url = /address +(http:\S+)/.exec(out)?.[1] ?? ""
    const key = /csk_\w+/.exec(out)?.[0]
    return {
      url,
      firstKey: key === undefined ? undefined : Redacted.make(key),
      process: service,
      log: service.waitForStderr(/^/),
      isReady: Effect.promise(() => isReady(url))
    }
  })

/** The longest wait for a probe. */
const PROBE_MILLIS = 15_000

const isReady = async (url: string): Promise<boolean> => {
  try {
    const response = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(PROBE_MILLIS) })
    await response.body?.cancel()
    return response.status === 200
  } catch {
    return false
  }
}

/** A response to a call, as the load judges it. */
export type Reply =
  | { readonly _tag: "Accepted"; readonly body: Readonly<Record<string, unknown>> }
  /** 503 with the problem and the header that the API promises. */
  | { readonly _tag: "Refused" }
  /** No response: the process is down. */
  | { readonly _tag: "Unreachable" }
  /** Any other response. */
  | { readonly _tag: "Wrong"; readonly description: string }

const decodeBody = Schema.decodeUnknownOption(
  Schema.fromJsonString(Schema.Record(Schema.String, Schema.Unknown))
)

/** Longer than the longest statement and the response deadline of a connection. */
const CALL_MILLIS = 30_000

/** Sends a request with a JSON body. */
export const call = async (options: {
  readonly url: string
  readonly key: Redacted.Redacted
  readonly path: string
  readonly body: unknown
  readonly idempotencyKey?: string
}): Promise<Reply> => {
  let status: number, text: string, retryAfter: string | null
  try {
    const response = await fetch(options.url + options.path, {
      method: "POST",
      headers: {
        authorization: `Bearer ${Redacted.value(options.key)}`,
        "content-type": "application/json",
        ...(options.idempotencyKey === undefined ? {} : { "idempotency-key": options.idempotencyKey })
      },
      body: JSON.stringify(options.body),
      signal: AbortSignal.timeout(CALL_MILLIS)
    })
    status = response.status
    retryAfter = response.headers.get("retry-after")
    text = await response.text()
  } catch (cause) {
    return cause instanceof Error && cause.name === "TimeoutError"
      ? { _tag: "Wrong", description: `no response to ${options.path} within ${CALL_MILLIS} ms` }
      : { _tag: "Unreachable" }
  }
  const decoded = decodeBody(text)
  const body = decoded._tag === "Some" ? decoded.value : {}
  if (status >= 200 && status < 300) return { _tag: "Accepted", body }
  if (status === 503 && body["code"] === "UNAVAILABLE" && retryAfter !== null) return { _tag: "Refused" }
  return { _tag: "Wrong", description: `${status} ${text.slice(0, 200)} to ${options.path}` }
}

/** Waits until the service is ready. Returns after how many milliseconds, or undefined if that took a minute. */
export const untilReady = (service: Pick<ServiceUnderTest, "isReady">): Effect.Effect<number | undefined> =>
  Effect.gen(function* () {
    const began = performance.now()
    const ready = yield* Effect.repeat(service.isReady, {
      until: (is) => is,
      schedule: Schedule.max([Schedule.spaced("100 millis"), Schedule.recurs(600)])
    })
    return ready ? performance.now() - began : undefined
  })
