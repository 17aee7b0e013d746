import { Effect, Layer, Option, Redacted, Schema } from "effect"
import { FieldError } from "../../src/api/Problem.ts"
import { Countersign, type TestOptions } from "../../src/testing/index.ts"
import { cloneDatabase } from "./postgres.ts"

/**
 * The whole service over a database of this test file's own. Give it to `layer(..., { excludeTestServices: true })`: a pool of
 * real connections needs the real clock.
 */
export const service = (options: Omit<TestOptions, "databaseUrl"> = {}) =>
  Layer.unwrap(Effect.map(cloneDatabase, (databaseUrl) => Countersign.layer({ ...options, databaseUrl })))

/** An answer as it is on the wire. */
export interface Answer {
  readonly status: number
  readonly headers: Headers
  /** The body read as JSON; its text where it is none. */
  readonly body: Record<string, unknown>
  /** The fields at fault, where the body is a problem that names some. */
  readonly errors: ReadonlyArray<FieldError>
}

/** Sends a request as it stands, with a key where one is given, past the typed client. */
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

/** The members at fault that a problem names, as the typed client fails with it. */
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
