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
import { table } from "./table.ts"

/** Runs with the keys of this environment's store; an embedded one that does not run is started and stopped. */
const withKeys = <A, E>(use: (keys: ApiKeys["Service"]) => Effect.Effect<A, E>) =>
  Effect.flatMap(readSettings, ({ settings }) =>
    Effect.provide(Effect.flatMap(ApiKeys, use), layerKeys(settings.store))
  )

const json = Flag.Boolean("json").pipe(Flag.withDescription("As JSON"), Flag.withDefault(false))

const encodeKey = Schema.encodeEffect(Schema.toCodecJson(ApiKey))

/** What was typed makes no key; the message says why. */
class KeyRefused extends Schema.TaggedError<KeyRefused>()("KeyRefused", { message: Schema.String }) {}

const decodeNewKey = (typed: object) =>
  Schema.decodeUnknownEffect(NewApiKey)(typed).pipe(
    Effect.mapError((error) => new KeyRefused({ message: `the key cannot be made: ${error.message}` }))
  )

const create = Command.make(
  "create",
  {
    org,
    name: Flag.String("name").pipe(
      Flag.withDescription("What the key is called in lists and decisions; default: its preset"),
      Flag.optional
    ),
    preset: Flag.Literals("preset", Preset.literals).pipe(
      Flag.withDescription("A named set of scopes"),
      Flag.optional
    ),
    scopes: Flag.String("scopes").pipe(
      Flag.withDescription("Scopes, separated by commas; beside a preset they narrow it"),
      Flag.optional
    ),
    email: Flag.String("email").pipe(
      Flag.withDescription("Where notices go, if the key is a reviewer's or an admin's"),
      Flag.optional
    ),
    expires: Flag.String("expires").pipe(
      Flag.withDescription("When it ends, as 2027-01-31T00:00:00Z"),
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
    if (isNew) yield* Console.error(`there was no organization ${flags.org}: it is made`)
    yield* Console.error(
      `${key.id} (${key.name}) of ${flags.org}, in the ${describeDatabase(settings.store)}; its text is shown this once:`
    )
    if (flags.json) {
      return yield* Console.log(JSON.stringify({ key: yield* encodeKey(key), secret: text }, null, 2))
    }
    // Alone on stdout, so that KEY=$(countersign keys create …) holds it.
    yield* Console.log(text)
  })
).pipe(
  Command.withDescription(
    "Make a key and print its text, once. The organization is made where there is none."
  ),
  Command.withExamples([
    { command: "countersign keys create --org acme --preset admin", description: "An administrator's key" },
    {
      command: "countersign keys create --org acme --preset reviewer --email ann@acme.example --name Ann",
      description: "A reviewer's key"
    },
    {
      command: "KEY=$(countersign keys create --preset runtime)",
      description: "An agent runtime's key, in a variable"
    }
  ])
)

const generateKey = Command.make("generate", {}, () =>
  Effect.flatMap(generateApiKey, ({ key }) => Console.log(Redacted.value(key)))
).pipe(
  Command.withDescription(
    "Print the text of a new key and store it nowhere: for COUNTERSIGN_ADMIN_KEY, which makes it the first admin key of an empty store. Needs no settings."
  ),
  Command.withExamples([
    {
      command: "COUNTERSIGN_ADMIN_KEY=$(countersign keys generate)",
      description: "The first admin key of a deployment"
    }
  ])
)

/** Keys read from the store at once, and the most that a list shows. */
const PAGE = 100
const MOST_LISTED = 10_000

const allKeys = Effect.fnUntraced(function* (keys: ApiKeys["Service"], organization: string) {
  const listed: Array<ApiKey> = []
  let cursor: KeyId | undefined
  do {
    const page = yield* keys.listFor(organization, { limit: PAGE, ...(cursor && { cursor }) })
    listed.push(...page.items)
    cursor = page.next_cursor ?? undefined
  } while (cursor !== undefined && listed.length < MOST_LISTED)
  return listed
})

const standing = (key: ApiKey, now: DateTime.Utc): string => {
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
      table([
        ["ID", "KEY", "PRESET", "STANDING", "NAME"],
        ...keys.map((key) => [
          key.id,
          `${key.hint}…`,
          key.preset ?? `${key.scopes.length} scopes`,
          standing(key, now),
          key.name
        ])
      ])
    )
  })
).pipe(
  Command.withDescription(
    "List an organization's keys, newest first. Their secrets are not stored, so not shown."
  ),
  Command.withExamples([{ command: "countersign keys list --org acme", description: "The keys of acme" }])
)

const revoke = Command.make(
  "revoke",
  {
    org,
    id: Argument.String("id").pipe(
      Argument.withDescription("The key's id: key_ and 32 hex digits"),
      Argument.withSchema(KeyId)
    )
  },
  Effect.fnUntraced(function* (flags) {
    yield* withKeys((keys) => keys.revokeFor(flags.org, flags.id))
    yield* Console.log(`${flags.id} is revoked; a running service stops taking it within 5 seconds`)
  })
).pipe(
  Command.withDescription("Revoke a key. The last usable admin key of an organization stays."),
  Command.withExamples([
    {
      command: "countersign keys revoke --org acme key_01998f…",
      description: "End a key"
    }
  ])
)

/** Secrets that could not be turned over. */
class NotAllRotated extends Schema.TaggedError<NotAllRotated>()("NotAllRotated", {
  count: Schema.Int,
  first: Schema.String
}) {
  override get message(): string {
    return `${this.count} of the secrets do not open and stay as they are; the first: ${this.first}`
  }
}

const rotateMaster = Command.make(
  "rotate-master",
  {},
  Effect.fnUntraced(function* () {
    const { settings } = yield* readSettings
    yield* Effect.gen(function* () {
      const [writing, ...older] = (yield* SecretBox).keyIds
      const { resealed, unreadable } = yield* rotateMasterKey
      yield* Console.log(
        `${resealed} secrets are sealed anew with master key ${writing}${
          older.length === 0
            ? ", the only one configured"
            : `; once every replica runs with it first, ${older.join(", ")} can be left out of COUNTERSIGN_MASTER_KEY`
        }`
      )
      const [first] = unreadable
      if (first !== undefined) {
        return yield* new NotAllRotated({ count: unreadable.length, first: first.message })
      }
    }).pipe(Effect.provide(layerSecrets(settings.store)))
  })
).pipe(
  Command.withDescription(
    "Seal every secret of the store anew with the newest master key, beside a running service. First give every replica COUNTERSIGN_MASTER_KEY=old,new, so that all can read what the new key seals, then every one new,old."
  ),
  Command.withExamples([
    {
      command: "COUNTERSIGN_MASTER_KEY=new,old countersign keys rotate-master",
      description: "Leave the old master key behind"
    }
  ])
)

export const keysCommand = Command.make("keys").pipe(
  Command.withDescription(
    "Make, list and revoke API keys, and turn over the master key, beside a running service or without one. Needs the store, not a key."
  ),
  Command.withSubcommands([create, generateKey, list, revoke, rotateMaster])
)
