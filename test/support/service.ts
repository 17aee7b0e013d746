import { Effect, Layer, Option, Redacted, Schema } from "effect"
import type { NewApiKey } from "../../src/api/ApiKeys.ts"
import { FieldError } from "../../src/api/Problem.ts"
import type { ClientCalls } from "../../src/client/Client.ts"
import type { Server } from "../../src/server/index.ts"
import { Countersign, type TestOptions } from "../../src/testing/index.ts"
import { cloneDatabase, serviceDatabase } from "./postgres.ts"

/**
 * The whole service on a database of its own. With `layer(..., { excludeTestServices: true })` its time passes by itself; without, the test
 * moves it by the `TestClock`.
 */
export const service = <Replaced extends Server.Edge = never, E = never, R = never>(
  options: Omit<TestOptions<Replaced, E, R>, "databaseUrl"> = {}
) =>
  Layer.unwrap(
    Effect.map(cloneDatabase, (url) => {
      const { databaseUrl, environment } = serviceDatabase(url)
      return Countersign.layer({
        ...options,
        databaseUrl,
        environment: { ...environment, ...options.environment }
      })
    })
  )

/** A raw HTTP response. */
export interface Answer {
  readonly status: number
  readonly headers: Headers
  /** The JSON body, or `{ text }` if the body is not JSON. */
  readonly body: Record<string, unknown>
  /** The `errors` of a problem body, else empty. */
  readonly errors: ReadonlyArray<FieldError>
}

/** Sends a raw request, bypassing the typed client. */
export const send = (
  path: string,
  options: RequestInit & { readonly key?: Redacted.Redacted | string } = {}
): Effect.Effect<Answer, never, Countersign> =>
  Effect.gen(function* () {
    const { url } = yield* Countersign
    const { key, ...init } = options
    const headers = new Headers(init.headers)
    if (key !== undefined) {
      headers.set("authorization", `Bearer ${Redacted.isRedacted(key) ? Redacted.value(key) : key}`)
    }
    if (init.body !== undefined && !headers.has("content-type"))
      headers.set("content-type", "application/json")
    return yield* Effect.promise(async () => {
      const answer = await fetch(url + path, { ...init, headers })
      const body = asRecord(await answer.text())
      const errors = Option.getOrElse(decodeErrors(body["errors"]), () => [])
      return { status: answer.status, headers: answer.headers, body, errors }
    })
  })

/** A client whose key another client's key makes, so that both act in each other's sessions. */
export const clientMadeBy = Effect.fnUntraced(function* (maker: ClientCalls, payload: NewApiKey) {
  const { clientWith } = yield* Countersign
  const { secret } = yield* maker.apiKeys.create({ payload })
  return yield* clientWith(Redacted.make(secret))
}, Effect.orDie)

/** The JSON pointers in the `errors` of a problem that the typed client failed with. */
export const pointersOf = (problem: object): ReadonlyArray<string> =>
  Option.getOrElse(decodeErrors(Reflect.get(problem, "errors")), () => []).map(({ pointer }) => pointer)

const decodeErrors = Schema.decodeUnknownOption(Schema.Array(FieldError))

const asRecord = (text: string): Record<string, unknown> => {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === "object" && value !== null ? { ...value } : { value }
  } catch {
    return { text }
  }
}
