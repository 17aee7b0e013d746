import { Array as Arr, Effect, Schema } from "effect"
import { lstat, realpath } from "node:fs/promises"
import { fileURLToPath } from "node:url"
import { ROOT, type Settings, type StoreSettings } from "../../server/config/Settings.ts"
import { textOfVariable } from "../../server/config/Settings/readVariables.ts"
import type { SystemAccount } from "../../server/http/changeAccount.ts"
import { loadOrCreateMasterKey, masterKeyPath } from "../../server/secrets/MasterKeyFile.ts"
import {
  type EmbeddedPostgresFailed,
  embeddedStoreExists,
  findAccount,
  firstBarrier,
  handOverDataDir,
  OWN_ACCOUNT,
  requireAccount
} from "../../server/store/EmbeddedPostgres.ts"
import { requireDatabase } from "../../server/main/layerStore.ts"
import { ProcessEnvironment } from "../environment.ts"

/** The service must not start as root like this. */
export class RootRefused extends Schema.TaggedError<RootRefused>()("RootRefused", {
  message: Schema.String
}) {}

const HOW_TO_CHOOSE =
  `create the account ${OWN_ACCOUNT} (useradd --system --shell /usr/sbin/nologin ${OWN_ACCOUNT}), set COUNTERSIGN_USER to an account that ` +
  "no other program uses, or start the service as an ordinary account"

/** The account to change to, or undefined if this process keeps its own, with a warning if that is root's. */
interface Choice {
  readonly account: SystemAccount | undefined
  readonly warning?: string
}

const chooseAccount = Effect.fnUntraced(function* ({
  store,
  user
}: Settings): Effect.fn.Return<Choice, RootRefused | EmbeddedPostgresFailed> {
  const { machine, variables } = yield* ProcessEnvironment
  if (machine.uid !== 0) {
    const isOwn = user === undefined || (yield* findAccount(user))?.uid === machine.uid
    if (!isOwn) yield* Effect.logWarning("COUNTERSIGN_USER has no effect: only root can change its account")
    return { account: undefined }
  }
  if (user === ROOT) {
    return {
      account: undefined,
      warning: "The service runs as root, because COUNTERSIGN_USER is root"
    }
  }
  if (user !== undefined) return { account: { name: user, ...(yield* requireAccount(user)) } }
  const own = yield* findAccount(OWN_ACCOUNT)
  if (own !== undefined) return { account: { name: OWN_ACCOUNT, ...own } }
  if (textOfVariable(variables, "NODE_ENV") === "production") {
    return yield* new RootRefused({
      message: `the service does not run as root with NODE_ENV=production: ${HOW_TO_CHOOSE}; COUNTERSIGN_USER=root allows root`
    })
  }
  const database =
    store.kind === "embedded" ? ", and its PostgreSQL as an account that other programs may share" : ""
  return { account: undefined, warning: `The service runs as root${database}: ${HOW_TO_CHOOSE}` }
})

/** Fails if the account cannot read the program: parts are loaded later. */
const requireReadable = Effect.fnUntraced(function* (account: SystemAccount) {
  for (const file of [process.argv[1] ?? process.execPath, fileURLToPath(import.meta.url)]) {
    const barrier = yield* firstBarrier(account, yield* Effect.promise(() => realpath(file)))
    if (barrier === undefined) continue
    return yield* new RootRefused({
      message:
        `the account ${account.name} cannot read ${barrier}, a part of the path of this program: install it where the account can, ` +
        "or set COUNTERSIGN_USER to another account"
    })
  }
})

type EmbeddedStore = Extract<StoreSettings, { readonly kind: "embedded" }>

/**
 * Reads the generated master key while this process is root, so that its file can stay root's: the embedded PostgreSQL, which will have the
 * account of the service, cannot read it. A file that is the account's own is read later. Neither is a key created here beside an existing
 * database, which may need a lost one.
 */
const masterKeysOf = Effect.fnUntraced(function* ({ dataDir, masterKeys }: EmbeddedStore) {
  if (masterKeys !== undefined) return masterKeys
  const file = yield* Effect.promise(() => lstat(masterKeyPath(dataDir)).catch(() => undefined))
  const isNew = file === undefined && !(yield* embeddedStoreExists(dataDir))
  const isRoots = file !== undefined && file.isFile() && file.uid === 0
  return isNew || isRoots ? Arr.of(yield* loadOrCreateMasterKey(dataDir)) : undefined
})

/**
 * Chooses the account that the service changes to once it listens, and does what only root can do for it before: hands over the data
 * directory and reads the master key. Returns the settings for the changed process, and a warning for when the service runs.
 */
export const prepareOwnAccount = Effect.fnUntraced(function* (settings: Settings) {
  const { account, warning } = yield* chooseAccount(settings)
  if (account === undefined) return { settings, account, warning }
  yield* requireReadable(account)
  const { store } = settings
  if (store.kind === "external") return { settings, account, warning }
  // Before anything is created in the directory, which can be that of a volume that is not mounted.
  yield* requireDatabase(store)
  yield* handOverDataDir({ ...store, user: account.name })
  const masterKeys = yield* masterKeysOf(store)
  return { settings: { ...settings, store: { ...store, masterKeys, user: account.name } }, account, warning }
})
