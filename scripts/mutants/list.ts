/** The list of mutants, by area. */
import { readFileSync } from "node:fs"
import { stripTypeScriptTypes } from "node:module"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { delivery } from "./list/delivery.ts"
import { engine } from "./list/engine.ts"
import { store } from "./list/store.ts"
import { approvals } from "./list/approvals.ts"
import { sessions } from "./list/sessions.ts"
import { streams } from "./list/streams.ts"
import { tasks } from "./list/tasks.ts"
import { learning } from "./list/learning.ts"
import { identity } from "./list/identity.ts"
import { http } from "./list/http.ts"
import { redactions } from "./list/redaction.ts"
import { secrets } from "./list/secrets.ts"
import { notifications } from "./list/notifications.ts"
import { webhooks } from "./list/webhooks.ts"
import { mail } from "./list/mail.ts"
import { telemetry } from "./list/telemetry.ts"
import { egress } from "./list/egress.ts"
import { adapters } from "./list/adapters.ts"
import { operations } from "./list/operations.ts"

export const root = fileURLToPath(new URL("../..", import.meta.url))

/** A change of one place in the source that breaks a guarantee. */
export interface Mutant {
  readonly area: string
  /** Relative to `src`. */
  readonly file: string
  /** The text as it is. It occurs exactly once in the file; white space counts as one space. */
  readonly from: string
  readonly to: string
  /** Test files that should notice, relative to `test`, the one that most probably does first. */
  readonly tests: ReadonlyArray<string>
  /** Why no test can notice: the change alters no behavior that a user could observe. */
  readonly equivalent?: string
}

/** A mutant as the lists of the areas write it. */
export type ListedMutant = Omit<Mutant, "area">

/** A mutant and the test that noticed it, if any. */
export interface Outcome {
  readonly mutant: Mutant
  readonly killedBy: string | undefined
  /** How long its tests took. */
  readonly millis: number
}

export const mutants: ReadonlyArray<Mutant> = Object.entries({
  delivery,
  engine,
  store,
  approvals,
  sessions,
  streams,
  tasks,
  learning,
  identity,
  http,
  redaction: redactions,
  secrets,
  notifications,
  webhooks,
  mail,
  telemetry,
  egress,
  adapters,
  operations
}).flatMap(([area, listed]) => listed.map((mutant) => ({ area, ...mutant })))

/** Survivors that the list does not explain. */
export const unexplained = (outcomes: ReadonlyArray<Outcome>): ReadonlyArray<Outcome> =>
  outcomes.filter(({ killedBy, mutant }) => killedBy === undefined && mutant.equivalent === undefined)

/** Matches `text` however its lines are broken. */
const pattern = (text: string): RegExp =>
  new RegExp(
    text
      .trim()
      .split(/\s+/)
      .map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"))
      .join("\\s+"),
    "g"
  )

/** The source of a mutant's file with its change. */
export const mutate = (source: string, { from, to }: Pick<Mutant, "from" | "to">): string =>
  source.replace(pattern(from), () => to)

/** Outdated entries of the list, as lines of a report. */
export const checkList = (): ReadonlyArray<string> =>
  mutants.flatMap((mutant) => {
    const { file, from, tests } = mutant
    const source = readOptional(path.join(root, "src", file))
    const places = source?.match(pattern(from))?.length ?? 0
    return [
      ...(source === undefined ? [`src/${file} does not exist`] : []),
      ...(source !== undefined && places !== 1 ? [`src/${file}: ${places} places, expected 1: ${from}`] : []),
      ...(source !== undefined && !isModule(mutate(source, mutant))
        ? [`src/${file}: no module with ${mutant.to}`]
        : []),
      ...tests
        .filter((test) => readOptional(path.join(root, "test", test)) === undefined)
        .map((test) => `test/${test} does not exist`)
    ]
  })

/** A mutant that does not parse would fail every test, and show nothing. */
const isModule = (source: string): boolean => {
  try {
    stripTypeScriptTypes(source)
    return true
  } catch {
    return false
  }
}

const readOptional = (file: string): string | undefined => {
  try {
    return readFileSync(file, "utf8")
  } catch {
    return undefined
  }
}
