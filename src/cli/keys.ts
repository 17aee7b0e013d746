import { Argument, Command, Flag } from "effect/cli"
import { KeyId } from "../domain/Ids.ts"
import { Preset } from "../domain/identity/Scope.ts"
import { lazily } from "./lazily.ts"
import { org } from "./organization.ts"

const handlers = () => import("./keys/handlers.ts")

const json = Flag.Boolean("json").pipe(Flag.withDescription("Print JSON"), Flag.withDefault(false))

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
    groups: Flag.String("groups").pipe(
      Flag.withDescription("Comma-separated groups, which quorums of approval rules name"),
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
    allowFrom: Flag.String("allow-from").pipe(
      Flag.withDescription(
        "Comma-separated networks that its requests may come from, such as 203.0.113.0/24"
      ),
      Flag.optional
    ),
    json
  },
  lazily(async () => (await handlers()).createKey)
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

const generateKey = Command.make(
  "generate",
  {},
  lazily(async () => (await handlers()).printNewKey)
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

const list = Command.make(
  "list",
  { org, json },
  lazily(async () => (await handlers()).listKeys)
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
    ),
    keepMade: Flag.Boolean("keep-made").pipe(
      Flag.withDescription("Keep the keys that it created, to replace a key that has not leaked"),
      Flag.withDefault(false)
    )
  },
  lazily(async () => (await handlers()).revokeKey)
).pipe(
  Command.withShortDescription("Revoke a key"),
  Command.withDescription(
    "Revoke a key and the keys that it created. The last usable admin key of an organization cannot be revoked."
  ),
  Command.withExamples([
    {
      command: "countersign keys revoke --org acme key_01998f…",
      description: "Revoke a key of acme"
    }
  ])
)

const rotateMaster = Command.make(
  "rotate-master",
  {
    toOlder: Flag.Boolean("to-older").pipe(
      Flag.withDescription(
        "Reseal with the first key even if another configured one is newer, to go back to it"
      ),
      Flag.withDefault(false)
    )
  },
  lazily(async () => (await handlers()).rotateMaster)
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
