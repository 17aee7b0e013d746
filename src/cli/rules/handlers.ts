import { Console, DateTime, Duration, Effect, Option, Result, Schema, Stream } from "effect"
import { readFile, rename, rm, writeFile } from "node:fs/promises"
import {
  type ApprovalRules,
  type NewApprovalRule,
  type ReplaceApprovalRules,
  type ShadowCursor,
  ShadowDifferences
} from "../../api/ApprovalRules.ts"
import { InvalidRequest } from "../../api/Problems.ts"
import { Client } from "../../client/Client.ts"
import type { ApprovalRule } from "../../domain/approvals/ApprovalRule.ts"
import { RuleTestLine } from "../../domain/approvals/RuleTest.ts"
import { errnoCode } from "../../server/store/errnoCode.ts"
import { diffLines } from "../../domain/tasks/diffLines.ts"
import { escapeInvisible } from "../escapeInvisible.ts"
import { commandFailed, FailedWithCode } from "../exitCode.ts"
import { describeFileFailure } from "../fileFailure.ts"
import { rulesKey } from "../rules.ts"
import { waitForDrain } from "../stdout.ts"
import { type Connection, useService } from "../useService.ts"
import { formatRules, isUnchanged, rulesAsYaml, updateYaml, withKnownIds } from "./formatRules.ts"
import { describeChanges, describeDifference } from "./printDifferences.ts"
import { describeResult, describeRevision, describeStep } from "./printTest.ts"
import { formatOf, type ParsedRules, parseRulesFile, type RulesFormat } from "./rulesFile.ts"
import { Timestamp } from "../../domain/Time.ts"

/** Largest file: the service takes a list of 1 MiB. */
const MAX_FILE_BYTES = 4 * 2 ** 20

/** Lines around a change in a difference. */
const CONTEXT_LINES = 3

const withClient = <A, E, R>(connection: Connection, use: (url: string) => Effect.Effect<A, E, R>) =>
  useService(rulesKey, connection, use)

const requireFormat = (file: string): Effect.Effect<RulesFormat, FailedWithCode> => {
  const format = formatOf(file)
  return format === undefined
    ? Effect.fail(commandFailed(`${file} must end in .yaml, .yml or .json`))
    : Effect.succeed(format)
}

/** The text of a file; undefined if it does not exist. */
const readText = (file: string): Effect.Effect<string | undefined, FailedWithCode> =>
  Effect.tryPromise({
    try: async () => {
      try {
        const bytes = await readFile(file)
        if (bytes.byteLength > MAX_FILE_BYTES)
          throw new Error(`${file} is larger than ${MAX_FILE_BYTES} bytes`)
        return new TextDecoder("utf-8", { fatal: true }).decode(bytes)
      } catch (error) {
        if (errnoCode(error) === "ENOENT") return undefined
        throw error
      }
    },
    catch: (error) => commandFailed(describeFileFailure(file, error))
  })

const parseFile = Effect.fnUntraced(function* (file: string): Effect.fn.Return<ParsedRules, FailedWithCode> {
  const format = yield* requireFormat(file)
  const text = yield* readText(file)
  if (text === undefined)
    return yield* commandFailed(`${file} does not exist: check the path, or run rules pull ${file}.`)
  const parsed = parseRulesFile(text, format)
  if (Result.isSuccess(parsed)) return parsed.success
  return yield* refuse(
    file,
    parsed.failure.map((fault) => `${file}:${fault}`)
  )
})

/** Prints the faults of a file, each with its place. */
const refuse = (file: string, faults: ReadonlyArray<string>) =>
  Effect.andThen(
    Console.error(escapeInvisible(faults.join("\n"))),
    Effect.fail(commandFailed(`${file} is not valid`))
  )

/** Shows the place in the file that the service refused. */
const locateFaults =
  (file: string, { locate }: ParsedRules) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | FailedWithCode, R> =>
    self.pipe(
      Effect.catch((error): Effect.Effect<never, E | FailedWithCode> => {
        if (!(error instanceof InvalidRequest) || error.errors === undefined) return Effect.fail(error)
        const faults = error.errors.map(
          ({ detail, pointer }) => `${file}:${locate(pointer)}: ${pointer}: ${detail}`
        )
        return faults.length === 0 ? Effect.fail(error) : refuse(file, faults)
      })
    )

/** Shows the rules of the file that allow more than they seem to. */
const warn = (file: string, { locate }: ParsedRules, warnings: ApprovalRules["warnings"]) =>
  Effect.forEach(
    warnings,
    ({ detail, pointer }) =>
      Console.error(escapeInvisible(`${file}:${locate(pointer)}: warning: ${pointer}: ${detail}`)),
    { discard: true }
  )

/** The rules that a command works on. `known`: the rules whose ids equal rules of a file keep. */
interface CurrentRules extends Pick<ApprovalRules, "rules" | "revision"> {
  readonly known: ReadonlyArray<ApprovalRule>
  /** Whether there is a list: an empty one decides too. */
  readonly exists: boolean
}

/** One of the service's two lists. */
const lists = {
  live: {
    command: "rules",
    read: Effect.gen(function* () {
      const { approvalRules } = yield* Client
      const { revision, rules } = yield* approvalRules.get({})
      return { revision, rules, known: rules, exists: true } satisfies CurrentRules
    }),
    replace: (payload: ReplaceApprovalRules) =>
      Effect.flatMap(Client, ({ approvalRules }) => approvalRules.replace({ payload }))
  },
  shadow: {
    command: "rules shadow",
    read: Effect.gen(function* () {
      const { approvalRules } = yield* Client
      const { active, revision, rules } = yield* approvalRules.getShadow({})
      const live = yield* approvalRules.get({})
      return { revision, rules, known: [...rules, ...live.rules], exists: active } satisfies CurrentRules
    }),
    replace: (payload: ReplaceApprovalRules) =>
      Effect.flatMap(Client, ({ approvalRules }) => approvalRules.replaceShadow({ payload }))
  }
} as const

/** The name of a list. */
export type ListName = keyof typeof lists

/** The revision of a list, for messages and `--revision`. */
const describeList = (
  name: ListName,
  current: Pick<CurrentRules, "rules" | "revision"> & { readonly exists?: boolean }
): string =>
  name === "live"
    ? describeRevision(current)
    : current.exists === false
      ? `shadow revision ${current.revision}: no shadow rules`
      : `shadow ${describeRevision(current)}`

/** Replaces a file at once: a command that is interrupted leaves the old one. */
const writeText = (file: string, text: string) =>
  Effect.tryPromise({
    try: async () => {
      const temporary = `${file}.${process.pid}.tmp`
      try {
        await writeFile(temporary, text)
        await rename(temporary, file)
      } catch (error) {
        await rm(temporary, { force: true })
        throw error
      }
    },
    catch: (error) => commandFailed(describeFileFailure(file, error, "write"))
  })

/** `rules pull` and `rules shadow pull` */
export const pullRules =
  (name: ListName) =>
  (flags: Connection & { readonly format: RulesFormat; readonly path: Option.Option<string> }) =>
    withClient(flags, (url) =>
      Effect.gen(function* () {
        const current = yield* lists[name].read
        if (Option.isNone(flags.path)) {
          yield* Console.log(formatRules(current.rules, flags.format, url).trimEnd())
          return yield* Console.error(describeList(name, current))
        }
        const file = flags.path.value
        const format = yield* requireFormat(file)
        const before = yield* readText(file)
        const text = pulledText(before, current, format, url)
        if (text !== before) yield* writeText(file, text)
        yield* Console.error(`${file}: ${describeList(name, current)}${text === before ? ", unchanged" : ""}`)
      })
    )

/** The new text of a file. One that says the same already stays as it is. */
const pulledText = (
  before: string | undefined,
  { rules }: Pick<ApprovalRules, "rules">,
  format: RulesFormat,
  url: string
): string => {
  if (before === undefined) return formatRules(rules, format, url)
  const parsed = parseRulesFile(before, format)
  if (Result.isSuccess(parsed) && isUnchanged(parsed.success.rules, rules)) return before
  const updated = format === "yaml" ? updateYaml(before, rules) : undefined
  return updated ?? formatRules(rules, format, url)
}

/** The difference that applying rules would make, by lines; empty if none. */
const describeChange = (
  current: Pick<ApprovalRules, "rules">,
  rules: ReadonlyArray<NewApprovalRule>
): string => {
  const changes = diffLines(escapeInvisible(rulesAsYaml(current.rules)), escapeInvisible(rulesAsYaml(rules)))
  return changes
    .flatMap(({ op, text }, index) => {
      const lines = text.split("\n")
      if (op !== "same") return lines.map((line) => `${op === "added" ? "+" : "-"} ${line}`)
      const [isFirst, isLast] = [index === 0, index === changes.length - 1]
      const head = isFirst ? 0 : CONTEXT_LINES
      const tail = isLast ? 0 : CONTEXT_LINES
      if (lines.length <= head + tail + 1) return isFirst && isLast ? [] : lines.map((line) => `  ${line}`)
      return [
        ...lines.slice(0, head).map((line) => `  ${line}`),
        "  ...",
        ...(tail === 0 ? [] : lines.slice(-tail).map((line) => `  ${line}`))
      ]
    })
    .join("\n")
}

/** `rules diff` and `rules shadow diff` */
export const diffRules = (name: ListName) => (flags: Connection & { readonly path: string }) =>
  withClient(flags, () =>
    Effect.gen(function* () {
      const parsed = yield* parseFile(flags.path)
      const current = yield* lists[name].read
      if (current.exists && isUnchanged(parsed.rules, current.rules))
        return yield* Console.error(`${describeList(name, current)}; no difference`)
      yield* Console.log(describeChange(current, withKnownIds(parsed.rules, current.known)))
      const differs = new Error(`${flags.path} differs from ${describeList(name, current)}`)
      return yield* new FailedWithCode({ exitCode: 1, cause: differs })
    })
  )

/** `rules apply` and `rules shadow apply` */
export const applyRules =
  (name: ListName) =>
  (flags: Connection & { readonly revision: Option.Option<number>; readonly path: string }) =>
    withClient(flags, () =>
      Effect.gen(function* () {
        const parsed = yield* parseFile(flags.path)
        const current = yield* lists[name].read
        const revision = Option.getOrElse(flags.revision, () => current.revision)
        if (revision !== current.revision) {
          return yield* commandFailed(
            `RULES_CHANGED: the service's rules have revision ${current.revision}, not ${revision}. Run ${lists[name].command} pull, review, and apply again`
          )
        }
        if (current.exists && isUnchanged(parsed.rules, current.rules))
          return yield* Console.error(`${describeList(name, current)}; nothing to change`)
        const rules = withKnownIds(parsed.rules, current.known)
        yield* Console.log(describeChange(current, rules))
        // With the revision that the difference was made for, so that nothing else is replaced.
        const replaced = yield* lists[name]
          .replace({ rules, revision })
          .pipe(locateFaults(flags.path, parsed))
        yield* warn(flags.path, parsed, replaced.warnings)
        yield* Console.error(`applied: ${describeList(name, replaced)}`)
      })
    )

const encodeLine = Schema.encodeEffect(Schema.toCodecJson(RuleTestLine))

/** `rules test` */
export const testRules = (
  flags: Connection & {
    readonly since: string
    readonly until: Option.Option<string>
    readonly json: boolean
    readonly path: string
  }
) =>
  withClient(flags, (url) =>
    Effect.gen(function* () {
      const parsed = yield* parseFile(flags.path)
      const now = yield* DateTime.now
      const until = Option.isNone(flags.until) ? Option.some(now) : parseTime(flags.until.value, now)
      const since = Option.flatMap(until, (end) => parseTime(flags.since, end))
      if (Option.isNone(until) || Option.isNone(since)) {
        const flag = Option.isNone(until) ? "--until" : "--since"
        return yield* commandFailed(
          `${flag} must be a duration such as 30d, or a time such as 2026-11-01T00:00:00Z`
        )
      }
      const { approvalRules } = yield* Client
      const payload = {
        rules: withKnownIds(parsed.rules, []),
        since: since.value,
        // The service's clock may be ahead of this one.
        ...(Option.isNone(flags.until) ? {} : { until: until.value })
      }
      const lines = yield* approvalRules.test({ payload }).pipe(locateFaults(flags.path, parsed))
      let wouldRun: number | undefined
      yield* Stream.runForEach(lines, (line) =>
        Effect.gen(function* () {
          if (line.type === "result") {
            wouldRun = line.rejected_would_run
            yield* warn(flags.path, parsed, line.warnings)
          }
          if (flags.json)
            yield* Effect.flatMap(encodeLine(line), (encoded) => Console.log(JSON.stringify(encoded)))
          else if (line.type === "step") yield* Console.log(describeStep(line, url))
          else if (line.type === "result") yield* Console.log(describeResult(line))
          yield* waitForDrain()
        })
      )
      if (wouldRun === undefined)
        return yield* commandFailed("the test was interrupted before its result; run it again")
      if (wouldRun > 0) {
        const what =
          wouldRun === 1
            ? "1 step that a person rejected"
            : `${wouldRun.toLocaleString("en")} steps that people rejected`
        return yield* new FailedWithCode({ exitCode: 1, cause: new Error(`${what} would run`) })
      }
    })
  )

const encodeDifferences = Schema.encodeEffect(Schema.toCodecJson(ShadowDifferences))

/** `rules shadow differences` */
export const listShadowDifferences = (
  flags: Connection & { readonly json: boolean; readonly limit: number }
) =>
  withClient(flags, (url) =>
    Effect.gen(function* () {
      const { approvalRules } = yield* Client
      let left = flags.limit
      let cursor: ShadowCursor | undefined
      do {
        const page = yield* approvalRules.listShadowDifferences({
          query: { limit: Math.min(100, left), ...(cursor === undefined ? {} : { cursor }) }
        })
        if (flags.json)
          yield* Effect.flatMap(encodeDifferences(page), (encoded) => Console.log(JSON.stringify(encoded)))
        else {
          if (page.changes !== null) yield* Console.error(describeChanges(page.revision, page.changes))
          for (const one of page.differences) yield* Console.log(describeDifference(one, url))
        }
        yield* waitForDrain()
        left -= page.differences.length
        cursor = page.next_cursor ?? undefined
      } while (cursor !== undefined && left > 0)
    })
  )

/** `rules shadow promote` */
export const promoteShadowRules = (flags: Connection & { readonly revision: number }) =>
  withClient(flags, () =>
    Effect.gen(function* () {
      const shadow = yield* lists.shadow.read
      if (!shadow.exists)
        return yield* commandFailed("there are no shadow rules; run rules shadow apply first")
      if (flags.revision !== shadow.revision) {
        return yield* commandFailed(
          `RULES_CHANGED: the shadow rules have revision ${shadow.revision}, not ${flags.revision}. Run rules shadow pull, review, and promote again`
        )
      }
      const live = yield* lists.live.read
      yield* Console.log(describeChange(live, shadow.rules))
      const { approvalRules } = yield* Client
      const promoted = yield* approvalRules.promoteShadow({
        payload: { revision: live.revision, shadow_revision: shadow.revision }
      })
      yield* Console.error(`promoted: ${describeRevision(promoted)}`)
    })
  )

/** `rules shadow remove` */
export const removeShadowRules = (flags: Connection) =>
  withClient(flags, () =>
    Effect.gen(function* () {
      const { approvalRules } = yield* Client
      yield* approvalRules.removeShadow({})
      yield* Console.error("there are no shadow rules")
    })
  )

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400, w: 604_800 }

const decodeTimestamp = Schema.decodeUnknownOption(Timestamp)

/** A time of a flag: `30d` (before another time), `2026-11-01` (in UTC) or RFC 3339. */
const parseTime = (text: string, end: Timestamp): Option.Option<Timestamp> => {
  const [, count, unit] = /^(\d{1,6})([smhdw])$/.exec(text) ?? []
  const seconds = UNITS[unit ?? ""]
  if (seconds !== undefined)
    return Option.some(DateTime.subtractDuration(end, Duration.seconds(Number(count) * seconds)))
  return decodeTimestamp(/^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : text)
}
