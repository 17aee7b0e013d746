import { assert } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { type Hunted, leaksIn, type Searched } from "./forms.ts"

/** A text that stands nowhere else. */
export const marker = (name: string): string => `${name}${randomBytes(24).toString("hex")}`

/** The secrets of one run, and every text that it has brought to light. */
export class Hunt {
  readonly #hunted = new Map<string, Hunted>()
  readonly #searched: Array<Searched> = []

  /** A secret that is hunted from here on: a marker, or one that an answer has shown for the one time. */
  secret(name: string, secret: unknown = marker("s")): string {
    if (typeof secret !== "string" || secret.length < 20) return assert.fail(`there is no ${name}`)
    this.#hunted.set(name, { name, secret })
    return secret
  }

  of(name: string): string {
    return this.#hunted.get(name)?.secret ?? assert.fail(name)
  }

  /** Keeps a text to be searched; `but` names what belongs there. */
  search(place: string, text: string, ...but: ReadonlyArray<string>): void {
    this.#searched.push({ place, text, but })
  }

  get leaks(): ReadonlyArray<string> {
    return leaksIn([...this.#hunted.values()], this.#searched)
  }
}

/** An answer, as far as flows look at it. */
export interface Asked {
  readonly status: number
  readonly json: Readonly<Record<string, unknown>>
  readonly headers: Headers
  /** A text of its JSON by path, as `endpoint.id`. */
  readonly text: (path: string) => string
}

/** What a request is sent with. */
export interface AskOptions {
  /** Secrets that the answer may show. */
  readonly but?: ReadonlyArray<string>
  readonly headers?: Readonly<Record<string, string>>
}

/** Sends requests with a key, and keeps every answer whole to be searched. */
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
    // A text, a page, or nothing: searched all the same.
    return {}
  }
}

/** Every row of every table as text, with what is stored as bytes also read as text. */
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
