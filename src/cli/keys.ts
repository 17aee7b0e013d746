import { Console, DateTime, Effect, Option, Redacted, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { NewApiKey } from "../api/ApiKeys.ts"
import { ApiKey } from "../domain/identity/ApiKey.ts"
import { KeyId } from "../domain/Ids.ts"
import { generateApiKey } from "../domain/identity/ApiKeyFormat.ts"
import { Preset } from "../domain/identity/Scope.ts"
import { ApiKeys } from "../server/identity/ApiKeys.ts"
import { rotateMasterKey } from "../server/secrets/MasterKeys.ts"
import { SecretBox } from "../server/secrets/SecretBox.ts"
import { Organizations } from "../server/identity/Organizations.ts"
import { layerBootstrapKeys, layerKeys, layerSecrets } from "../server/main/layerKeys.ts"
import { readSettings } from "./environment.ts"
import { org } from "./organization.ts"
import { describeDatabase } from "./describeDatabase.ts"
import { formatTable } from "./formatTable.ts"

/** Runs with the keys of the configured database; an embedded one that is not running is started and stopped. */
const withKeys = <A, E>(use: (keys: ApiKeys["Service"]) => Effect.Effect<A, E>) =>
  Effect.flatMap(readSettings, ({ settings }) =>
    Effect.provide(Effect.flatMap(ApiKeys, use), layerKeys(settings.store))
  )

const json = Flag.Boolean("json").pipe(Flag.withDescription("Print JSON"), Flag.withDefault(false))

const encodeKey = Schema.encodeEffect(Schema.toCodecJson(ApiKey))

/** The flags do not describe a valid key; the message has the reason. */
class InvalidKey extends Schema.TaggedError<InvalidKey>()("InvalidKey", { message: Schema.String }) {}

const decodeNewKey = (typed: object) =>
  Schema.decodeUnknownEffect(NewApiKey)(typed).pipe(
    Effect.mapError((error) => new InvalidKey({ message: `invalid key: ${error.message}` }))
  )

const create = Command.make(
  "create",
  {
    org,
    name: Flag.String("name").pipe(
      Flag.withDescription("Name of the key in lists and decisions; default: the preset"),
      Flag.optional
    ),
    preset: Flag.Literals("preset", Preset.literals).pipe(
      Flag.withDescription("Named set of scopes"),
      Flag.optional
    ),
    scopes: Flag.String("scopes").pipe(
      Flag.withDescription("Comma-separated scopes; with --preset they narrow the preset"),
      Flag.optional
    ),
    email: Flag.String("email").pipe(
      Flag.withDescription("Address for approval emails, for keys of reviewers and admins"),
      Flag.optional
    ),
    expires: Flag.String("expires").pipe(
      Flag.withDescription("Expiry time, such as 2027-01-31T00:00:00Z"),
      Flag.optional
    ),
    json
  },
  Effect.fnUntraced(function* (flags) {
    const preset = Option.getOrUndefined(flags.preset)
    const input = yield* decodeNewKey({
      name: Option.getOrElse(flags.name, () => preset ?? "key"),
      ...(preset === undefined ? {} : { preset }),
      ...Option.match(flags.scopes, {
        onNone: () => ({}),
        onSome: (list) => ({ scopes: list.split(",").map((scope) => scope.trim()) })
      }),
      ...Option.match(flags.email, { onNone: () => ({}), onSome: (email) => ({ email }) }),
      ...Option.match(flags.expires, { onNone: () => ({}), onSome: (expires_at) => ({ expires_at }) })
    })
    const { settings } = yield* readSettings
    const { isNew, key, secret } = yield* Effect.gen(function* () {
      const isKnown = yield* Effect.isSuccess((yield* Organizations).findByName(flags.org))
      return { isNew: !isKnown, ...(yield* (yield* ApiKeys).createFor(flags.org, input)) }
    }).pipe(Effect.provide(layerBootstrapKeys(settings.store)))
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
).pipe(
  Command.withShortDescription("Create an API key"),
  Command.withDescription(
    "Create an API key and print it once. Creates the organization if it does not exist."
  ),
  Command.withExamples([
    { command: "countersign keys create --org acme --preset admin", description: "Create an admin key" },
    {
      command: "countersign keys create --org acme --preset reviewer --email ann@acme.example --name Ann",
      description: "Create a reviewer's key"
    },
    {
      command: "KEY=$(countersign keys create --preset runtime)",
      description: "Store an agent's key in a variable"
    }
  ])
)

const generateKey = Command.make("generate", {}, () =>
  Effect.flatMap(generateApiKey, ({ key }) => Console.log(Redacted.value(key)))
).pipe(
  Command.withShortDescription("Print a new API key without storing it"),
  Command.withDescription(
    "Print a new API key without storing it, for COUNTERSIGN_ADMIN_KEY: an empty database gets it as its first admin " +
      "key. Needs no configuration."
  ),
  Command.withExamples([
    {
      command: "COUNTERSIGN_ADMIN_KEY=$(countersign keys generate)",
      description: "Generate the first admin key of a deployment"
    }
  ])
)

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
  if (key.revoked_at !== null) return `revoked ${DateTime.formatIso(key.revoked_at)}`
  if (key.expires_at === null) return "valid"
  return `${DateTime.isLessThanOrEqualTo(key.expires_at, now) ? "expired" : "valid until"} ${DateTime.formatIso(key.expires_at)}`
}

const list = Command.make(
  "list",
  { org, json },
  Effect.fnUntraced(function* (flags) {
    const keys = yield* withKeys((keys) => allKeys(keys, flags.org))
    if (flags.json) {
      return yield* Console.log(JSON.stringify(yield* Effect.forEach(keys, (key) => encodeKey(key)), null, 2))
    }
    const now = yield* DateTime.now
    yield* Console.log(
      formatTable([
        ["ID", "KEY", "PRESET", "STATUS", "NAME"],
        ...keys.map((key) => [
          key.id,
          `${key.hint}…`,
          key.preset ?? `${key.scopes.length} scopes`,
          statusOf(key, now),
          key.name
        ])
      ])
    )
  })
).pipe(
  Command.withShortDescription("List an organization's keys"),
  Command.withDescription(
    "List an organization's keys, newest first. The keys themselves are not stored and cannot be shown."
  ),
  Command.withExamples([
    { command: "countersign keys list --org acme", description: "List the keys of acme" }
  ])
)

const revoke = Command.make(
  "revoke",
  {
    org,
    id: Argument.String("id").pipe(
      Argument.withDescription("Key id (key_ and 32 hex digits)"),
      Argument.withSchema(KeyId)
    )
  },
  Effect.fnUntraced(function* (flags) {
    yield* withKeys((keys) => keys.revokeFor(flags.org, flags.id))
    yield* Console.log(`Revoked ${flags.id}. Running services reject it within 5 seconds.`)
  })
).pipe(
  Command.withShortDescription("Revoke a key"),
  Command.withDescription("Revoke a key. The last usable admin key of an organization cannot be revoked."),
  Command.withExamples([
    {
      command: "countersign keys revoke --org acme key_01998f…",
      description: "Revoke a key of acme"
    }
  ])
)

/** Some secrets could not be resealed. */
class IncompleteRotation extends Schema.TaggedError<IncompleteRotation>()("IncompleteRotation", {
  count: Schema.Int,
  first: Schema.String
}) {
  override get message(): string {
    return `${this.count} of the secrets cannot be unsealed and are unchanged; the first: ${this.first}`
  }
}

const rotateMaster = Command.make(
  "rotate-master",
  {},
  Effect.fnUntraced(function* () {
    const { settings } = yield* readSettings
    yield* Effect.gen(function* () {
      const [primary, ...older] = (yield* SecretBox).keyIds
      const { resealed, unreadable } = yield* rotateMasterKey
      yield* Console.log(
        `Resealed ${resealed} ${resealed === 1 ? "secret" : "secrets"} with master key ${primary}${
          older.length === 0
            ? ", the only one configured."
            : `. Once every replica lists it first, remove ${older.join(", ")} from COUNTERSIGN_MASTER_KEY.`
        }`
      )
      const [first] = unreadable
      if (first !== undefined) {
        return yield* new IncompleteRotation({ count: unreadable.length, first: first.message })
      }
    }).pipe(Effect.provide(layerSecrets(settings.store)))
  })
).pipe(
  Command.withShortDescription("Reseal every secret with the first master key"),
  Command.withDescription(
    "Reseal every secret in the database with the first key of COUNTERSIGN_MASTER_KEY, without stopping the service. Before that, " +
      "deploy COUNTERSIGN_MASTER_KEY=old,new to every replica, so that all can unseal with the new key, and then " +
      "new,old."
  ),
  Command.withExamples([
    {
      command: "COUNTERSIGN_MASTER_KEY=new,old countersign keys rotate-master",
      description: "Reseal all secrets with the new master key"
    }
  ])
)

export const keysCommand = Command.make("keys").pipe(
  Command.withShortDescription("Manage API keys and the master key"),
  Command.withDescription(
    "Create, list and revoke API keys, and rotate the master key. Connects to the database, so it needs no API key and no running service."
  ),
  Command.withSubcommands([create, generateKey, list, revoke, rotateMaster])
)
