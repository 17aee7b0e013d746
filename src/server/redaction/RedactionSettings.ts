import { Context, Effect, Layer, Result, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import {
  type InsufficientScope,
  InvalidRequest,
  PayloadTooLarge,
  RedactionSettingsChanged
} from "../../api/Problems.ts"
import type {
  PreviewRedaction,
  RedactionPreview,
  RedactionSettings as Settings,
  ReplaceRedactionSettings
} from "../../api/RedactionSettings.ts"
import { describeFirst } from "../../domain/describeIssue.ts"
import type { OrgId } from "../../domain/Ids.ts"
import { redact } from "../../domain/redaction/Redaction.ts"
import { compilePolicy, type RedactionPolicy } from "../../domain/redaction/RedactionPolicy.ts"
import { type RedactionPattern, RedactionRules } from "../../domain/redaction/RedactionRules.ts"
import { nextTurnOrYield } from "../admission/LoopTurns.ts"
import { Audit } from "../identity/Audit.ts"
import { requireContentScopes } from "../identity/requireContentScopes.ts"
import { KnownSecrets } from "../secrets/KnownSecrets.ts"
import { raiseSecretsVersion } from "../secrets/secretsVersion.ts"
import { redactTexts } from "../secrets/redactTexts.ts"
import { raiseSettingsRevision } from "../store/raiseSettingsRevision.ts"
import { rowsOf } from "../store/rows.ts"
import { atomic } from "../store/transaction.ts"

/**
 * The redaction rules of one organization, besides its credentials and recognizable secrets. The settings reach
 * redaction through `KnownSecrets`: each change raises the version of the organization's secrets, so that no
 * replica applies stale settings.
 */
export class RedactionSettings extends Context.Service<
  RedactionSettings,
  {
    /** The organization's settings, with their revision. */
    readonly get: Effect.Effect<Settings, never, Authorized<"org_config.read">>
    /**
     * Replaces the settings. Settings that redact less take the scopes that read the content. A `revision` other than the current one fails; without one there is no
     * check.
     */
    readonly replace: (
      input: ReplaceRedactionSettings
    ) => Effect.Effect<
      Settings,
      RedactionSettingsChanged | InvalidRequest | InsufficientScope,
      Authorized<"org_config.write">
    >
    /** Redacts a value by the organization's settings or by others. Stores nothing. */
    readonly preview: (
      input: PreviewRedaction
    ) => Effect.Effect<RedactionPreview, InvalidRequest | PayloadTooLarge, Authorized<"org_config.write">>
  }
>()("countersign/server/redaction/RedactionSettings") {
  static readonly layer = Layer.effect(
    RedactionSettings,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const audit = yield* Audit
      const secrets = yield* KnownSecrets

      const read = Effect.fnUntraced(function* (org_id: OrgId) {
        const row = yield* settingsRows.first(sql`
          SELECT revision, rules
          FROM redaction_settings
          WHERE org_id = ${org_id}
        `)
        return row === undefined ? noSettings : { ...row.rules, revision: row.revision }
      })

      return RedactionSettings.of({
        get: Effect.gen(function* () {
          const { org_id } = yield* Authorized("org_config.read")
          return yield* Effect.orDie(read(org_id))
        }).pipe(Effect.withSpan("RedactionSettings.get")),
        replace: Effect.fn("RedactionSettings.replace")(function* ({
          exceptions = [],
          patterns = [],
          personal_data = [],
          redact_runs = false,
          revision: replaced
        }) {
          const principal = yield* Authorized("org_config.write")
          const { org_id } = principal
          const rules: RedactionRules = { patterns, exceptions, personal_data, redact_runs }
          yield* compile(rules, "#")
          return yield* atomically(
            Effect.gen(function* () {
              const revision = yield* raiseSettingsRevision(
                sql,
                "redaction_settings",
                { org_id, rules: JSON.stringify(noRules) },
                replaced,
                RedactionSettingsChanged
              )
              const loosened = findLoosened(yield* read(org_id), rules)
              if (loosened !== undefined) yield* requireContentScopes(principal, `#/${loosened}`)
              yield* sql`
                UPDATE redaction_settings
                SET rules = ${JSON.stringify(rules)}
                WHERE org_id = ${org_id}
              `
              yield* raiseSecretsVersion(org_id)
              yield* audit.record(principal, "redaction_settings.replaced", org_id, {
                revision,
                patterns: patterns.length,
                exceptions: exceptions.length,
                personal_data,
                redact_runs
              })
              return { ...rules, revision }
            })
          )
        }),
        preview: Effect.fn("RedactionSettings.preview")(function* ({ settings, value }) {
          const { org_id } = yield* Authorized("org_config.write")
          const stored = yield* secrets.forOrg(org_id)
          const known =
            settings === undefined
              ? stored
              : stored.withPolicy(yield* compile({ ...noRules, ...settings }, "#/settings"))
          const texts = yield* redactTexts(value, known, nextTurnOrYield)
          const redaction = redact(value, known, "#/value", texts)
          if (redaction._tag === "Unsearchable") {
            const { detail, pointer } = redaction
            return yield* new PayloadTooLarge({
              detail: "The value has too many values in it to be searched. Send a smaller one.",
              errors: [{ pointer, detail }]
            })
          }
          return { value: redaction.value, count: redaction.count, pointers: redaction.pointers }
        })
      })
    })
  )
}

/** Compiles rules that are at `pointer` of the request. */
const compile = (rules: RedactionRules, pointer: string): Effect.Effect<RedactionPolicy, InvalidRequest> =>
  Result.match(compilePolicy(rules), {
    onSuccess: Effect.succeed,
    onFailure: (faults) =>
      Effect.suspend(() => {
        const errors = faults.map((fault) => ({ ...fault, pointer: fault.pointer.replace("#", pointer) }))
        const detail = `The settings contain an expression that cannot be used: ${describeFirst(errors)}`
        return Effect.fail(new InvalidRequest({ detail, errors }))
      })
  })

/** The member by which some value that was redacted is no longer; undefined if there is none. */
const findLoosened = (before: RedactionRules, after: RedactionRules): keyof RedactionRules | undefined => {
  const lacks = (list: ReadonlyArray<RedactionPattern>, wanted: ReadonlyArray<RedactionPattern>) =>
    wanted.some(({ pattern }) => !list.some((one) => one.pattern === pattern))
  if (lacks(before.exceptions, after.exceptions)) return "exceptions"
  if (lacks(after.patterns, before.patterns)) return "patterns"
  if (before.personal_data.some((kind) => !after.personal_data.includes(kind))) return "personal_data"
  return before.redact_runs && !after.redact_runs ? "redact_runs" : undefined
}

const noRules: RedactionRules = { patterns: [], exceptions: [], personal_data: [], redact_runs: false }
const noSettings: Settings = { ...noRules, revision: 0 }

const settingsRows = rowsOf(Schema.Struct({ revision: Schema.Int, rules: RedactionRules }))
