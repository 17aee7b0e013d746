import { Console, DateTime, Effect, Option, Redacted, Schema } from "effect"
import { NewApiKey } from "../../api/ApiKeys.ts"
import { ApiKey } from "../../domain/identity/ApiKey.ts"
import type { KeyId } from "../../domain/Ids.ts"
import { generateApiKey } from "../../domain/identity/ApiKeyFormat.ts"
import type { Preset } from "../../domain/identity/Scope.ts"
import { ApiKeys } from "../../server/identity/ApiKeys.ts"
import { Audit } from "../../server/identity/Audit.ts"
import { listUsedKeyIds, rotateMasterKey } from "../../server/secrets/MasterKeys.ts"
import { SecretBox } from "../../server/secrets/SecretBox.ts"
import { Organizations } from "../../server/identity/Organizations.ts"
import { layerKeys, layerSecrets } from "../../server/main/layerKeys.ts"
import { readSettings } from "../environment.ts"
import { describeDatabase } from "../describeDatabase.ts"
import { withProgress } from "../progress.ts"

/** Runs with the keys of the configured database; an embedded one that is not running is started and stopped. */
const withKeys = <A, E>(use: (keys: ApiKeys["Service"]) => Effect.Effect<A, E>) =>
  Effect.flatMap(readSettings, ({ settings }) =>
    Effect.provide(Effect.flatMap(ApiKeys, use), layerKeys(settings))
  )

const encodeKey = Schema.encodeEffect(Schema.toCodecJson(ApiKey))

/** The flags do not describe a valid key; the message has the reason. */
class InvalidKey extends Schema.TaggedError<InvalidKey>()("InvalidKey", { message: Schema.String }) {}

const decodeNewKey = (typed: object) =>
  Schema.decodeUnknownEffect(NewApiKey)(typed).pipe(
    Effect.mapError((error) => new InvalidKey({ message: `invalid key: ${error.message}` }))
  )

const splitList = (list: string) => list.split(",").map((entry) => entry.trim())

/** `keys create` */
export const createKey = Effect.fnUntraced(function* (flags: {
  readonly org: string
  readonly name: Option.Option<string>
  readonly preset: Option.Option<Preset>
  readonly scopes: Option.Option<string>
  readonly groups: Option.Option<string>
  readonly email: Option.Option<string>
  readonly expires: Option.Option<string>
  readonly allowFrom: Option.Option<string>
  readonly json: boolean
}) {
  const preset = Option.getOrUndefined(flags.preset)
  const input = yield* decodeNewKey({
    name: Option.getOrElse(flags.name, () => preset ?? "key"),
    ...(preset === undefined ? {} : { preset }),
    ...Option.match(flags.scopes, {
      onNone: () => ({}),
      onSome: (list) => ({ scopes: splitList(list) })
    }),
    ...Option.match(flags.allowFrom, {
      onNone: () => ({}),
      onSome: (list) => ({ allowed_networks: splitList(list) })
    }),
    ...Option.match(flags.groups, {
      onNone: () => ({}),
      onSome: (list) => ({ groups: splitList(list) })
    }),
    ...Option.match(flags.email, { onNone: () => ({}), onSome: (email) => ({ email }) }),
    ...Option.match(flags.expires, { onNone: () => ({}), onSome: (expires_at) => ({ expires_at }) })
  })
  const { settings } = yield* readSettings
  const { isNew, key, secret } = yield* Effect.gen(function* () {
    const isKnown = yield* Effect.isSuccess((yield* Organizations).findByName(flags.org))
    return { isNew: !isKnown, ...(yield* (yield* ApiKeys).createFor(flags.org, input)) }
  }).pipe(Effect.provide(layerKeys(settings)))
  const text = Redacted.value(secret)
  if (isNew) yield* Console.error(`Created organization ${flags.org}.`)
  yield* Console.error(
    `Created key ${key.id} (${key.name}) of organization ${flags.org} (database: ` +
      `${describeDatabase(settings.store)}). It is shown only once:`
  )
  if (flags.json) {
    return yield* Console.log(JSON.stringify({ key: yield* encodeKey(key), secret: text }, null, 2))
  }
  // The key alone goes to stdout, so that KEY=$(countersign keys create …) captures it.
  yield* Console.log(text)
})

/** `keys generate` */
export const printNewKey = () => Effect.flatMap(generateApiKey, ({ key }) => Console.log(Redacted.value(key)))

/** Keys read per query, and the most that a list prints. */
const PAGE_SIZE = 100
const MAX_LISTED = 10_000

const allKeys = Effect.fnUntraced(function* (keys: ApiKeys["Service"], organization: string) {
  const listed: Array<ApiKey> = []
  let cursor: KeyId | undefined
  do {
    const page = yield* keys.listFor(organization, { limit: PAGE_SIZE, ...(cursor && { cursor }) })
    listed.push(...page.items)
    cursor = page.next_cursor ?? undefined
  } while (cursor !== undefined && listed.length < MAX_LISTED)
  return listed
})

const statusOf = (key: ApiKey, now: DateTime.Utc): string => {
  if (key.revoked_at !== null) {
    return `${key.revocation_reason === "leaked" ? "leaked, revoked" : "revoked"} ${DateTime.formatIso(key.revoked_at)}`
  }
  if (key.expires_at === null) return "valid"
  return `${DateTime.isLessThanOrEqualTo(key.expires_at, now) ? "expired" : "valid until"} ${DateTime.formatIso(key.expires_at)}`
}

/** `keys list` */
export const listKeys = Effect.fnUntraced(function* (flags: {
  readonly org: string
  readonly json: boolean
}) {
  const keys = yield* withKeys((keys) => allKeys(keys, flags.org))
  if (flags.json) {
    return yield* Console.log(JSON.stringify(yield* Effect.forEach(keys, (key) => encodeKey(key)), null, 2))
  }
  const now = yield* DateTime.now
  yield* Console.log(
    formatTable([
      ["ID", "KEY", "PRESET", "STATUS", "LAST USED", "NAME"],
      ...keys.map((key) => [
        key.id,
        `${key.hint}…`,
        key.preset ?? `${key.scopes.length} scopes`,
        statusOf(key, now),
        key.last_used_at === null ? "never" : DateTime.formatIso(key.last_used_at),
        key.name
      ])
    ])
  )
})

/** `keys revoke` */
export const revokeKey = Effect.fnUntraced(function* (flags: {
  readonly org: string
  readonly id: KeyId
  readonly keepMade: boolean
}) {
  const made_keys = flags.keepMade ? "keep" : "revoke"
  yield* withKeys((keys) => keys.revokeFor(flags.org, flags.id, { made_keys }))
  const made = flags.keepMade ? "" : " and the keys that it created"
  yield* Console.log(`Revoked ${flags.id}${made}. Running services reject it within 5 seconds.`)
})

/** Some secrets could not be resealed. */
class IncompleteRotation extends Schema.TaggedError<IncompleteRotation>()("IncompleteRotation", {
  count: Schema.Int,
  first: Schema.String
}) {
  override get message(): string {
    return `${this.count} of the secrets cannot be unsealed and are unchanged; the first: ${this.first}`
  }
}

/** The first configured master key is older than another: they are probably in the wrong order. */
class OlderMasterKey extends Schema.TaggedError<OlderMasterKey>()("OlderMasterKey", {
  primary: Schema.String,
  newest: Schema.String
}) {
  override get message(): string {
    return (
      `COUNTERSIGN_MASTER_KEY lists ${this.primary} first, but ${this.newest} is the newer key of this database: list that first, or use ` +
      "--to-older to go back to the older one"
    )
  }
}

/** `keys rotate-master` */
export const rotateMaster = Effect.fnUntraced(function* (flags: { readonly toOlder: boolean }) {
  const { settings } = yield* readSettings
  yield* Effect.gen(function* () {
    const [primary, ...older] = (yield* SecretBox).keyIds
    const newest = (yield* listUsedKeyIds).find((id) => id === primary || older.includes(id))
    if (newest !== undefined && newest !== primary && !flags.toOlder) {
      return yield* new OlderMasterKey({ primary, newest })
    }
    const audit = yield* Audit
    const { resealed, unreadable } = yield* withProgress(
      { unit: "secrets resealed", hasOutput: false },
      (report) =>
        rotateMasterKey(
          (org_id) =>
            audit.record({ org_id, actor: null }, "master_key.rotated", primary, { replaced: older }),
          report
        )
    )
    yield* Console.log(
      `Resealed ${resealed} ${resealed === 1 ? "secret" : "secrets"} with master key ${primary}${
        older.length === 0
          ? ", the only one configured."
          : resealed === 0
            ? `: every one was sealed with it. To replace it, list the new key first.`
            : `. Once every replica lists it first, remove ${older.join(", ")} from COUNTERSIGN_MASTER_KEY.`
      }`
    )
    const [first] = unreadable
    if (first !== undefined) {
      return yield* new IncompleteRotation({ count: unreadable.length, first: first.message })
    }
  }).pipe(Effect.provide(layerSecrets(settings.store)))
})

/** Formats rows as aligned columns; the last column is not padded. */
const formatTable = (rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const widths: Array<number> = []
  for (const row of rows) {
    for (const [index, cell] of row.entries()) widths[index] = Math.max(widths[index] ?? 0, cell.length)
  }
  return rows
    .map((row) =>
      row
        .map((cell, index) => (index === row.length - 1 ? cell : cell.padEnd(widths[index] ?? 0)))
        .join("  ")
        .trimEnd()
    )
    .join("\n")
}
