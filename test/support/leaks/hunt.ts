import { assert } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { type Hunted, leaksIn, type Searched } from "./forms.ts"

/** A unique marker text. */
export const marker = (name: string): string => `${name}${randomBytes(24).toString("hex")}`

/** The secrets of one test run, and every text that the run has seen. */
export class Hunt {
  readonly #hunted = new Map<string, Hunted>()
  readonly #searched: Array<Searched> = []

  /** Adds a secret to search for: a new marker, or a value that a response has shown once. */
  secret(name: string, secret: unknown = marker("s")): string {
    if (typeof secret !== "string" || secret.length < 20) return assert.fail(`there is no ${name}`)
    this.#hunted.set(name, { name, secret })
    return secret
  }

  of(name: string): string {
    return this.#hunted.get(name)?.secret ?? assert.fail(name)
  }

  /** Adds a text to be searched. `but` names the secrets that may appear in it. */
  search(place: string, text: string, ...but: ReadonlyArray<string>): void {
    this.#searched.push({ place, text, but })
  }

  get leaks(): ReadonlyArray<string> {
    return leaksIn([...this.#hunted.values()], this.#searched)
  }
}

/** A response. */
export interface Asked {
  readonly status: number
  readonly json: Readonly<Record<string, unknown>>
  readonly headers: Headers
  /** The string at a path of the JSON body, such as `endpoint.id`. */
  readonly text: (path: string) => string
}

/** Options of a request. */
export interface AskOptions {
  /** Names of the secrets that may appear in the response. */
  readonly but?: ReadonlyArray<string>
  readonly headers?: Readonly<Record<string, string>>
}

/** Sends a request with an API key and adds the whole response to the searched texts. */
export type Ask = (method: string, path: string, body?: unknown, options?: AskOptions) => Effect.Effect<Asked>

export const makeAsk =
  (hunt: Hunt, url: string, key: Redacted.Redacted): Ask =>
  (method, path, body, { but = [], headers = {} } = {}) =>
    Effect.promise(async () => {
      const answer = await fetch(url + path, {
        method,
        headers: {
          authorization: `Bearer ${Redacted.value(key)}`,
          "content-type": "application/json",
          ...headers
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) })
      })
      const text = await answer.text()
      const place = `answer of ${method} ${path.split("?")[0]}`
      hunt.search(place, `${[...answer.headers].join("\n")}\n${text}`, ...but)
      const json = recordOf(text)
      const textAt = (where: string) => {
        const found = where.split(".").reduce<unknown>((value, name) => recordAt(value)[name], json)
        return typeof found === "string" ? found : assert.fail(`${place}: no ${where} in ${text}`)
      }
      return { status: answer.status, json, headers: answer.headers, text: textAt }
    })

const recordAt = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null ? { ...value } : {}

const recordOf = (text: string): Record<string, unknown> => {
  try {
    return recordAt(JSON.parse(text))
  } catch {
    // The body is not JSON. It is searched as text.
    return {}
  }
}

/** Every row of every table as text, with byte columns also decoded as text. */
export const dump = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const tables = yield* sql<{ readonly name: string }>`
    SELECT format('%I', relname) AS name FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
  `
  const rows = yield* Effect.forEach(tables, ({ name }) =>
    sql.unsafe<{ readonly row: string }>(`SELECT ${name}::text AS row FROM ${name}`)
  )
  const text = rows
    .flat()
    .map(({ row }) => row)
    .join("\n")
  const bytes = [...text.matchAll(/\\x([0-9a-f]{2,})/g)].map(([, hex]) =>
    Buffer.from(hex ?? "", "hex").toString("latin1")
  )
  return [text, ...bytes].join("\n")
}).pipe(Effect.orDie)
