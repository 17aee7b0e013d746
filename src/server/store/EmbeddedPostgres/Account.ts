import { Effect } from "effect"
import { stat } from "node:fs/promises"
import path from "node:path"
import { errnoCode } from "../errnoCode.ts"
import { tryFileSystem, OTHER_OPTIONS, EmbeddedPostgresFailed } from "./EmbeddedPostgresFailed.ts"
import { runCommand } from "./runCommand.ts"

/** The system account that the server runs as. */
export interface Account {
  readonly uid: number
  readonly gid: number
}

/** The account of Countersign, if the machine has one. */
export const OWN_ACCOUNT = "countersign"

/** Accounts to run the server as, preferred first. The last two exist on most systems, and other programs may share them. */
const candidates = [OWN_ACCOUNT, "postgres", "nobody"]

/** The account of this name, or `undefined` if the machine has no such account or it is root. */
export const findAccount = Effect.fn("EmbeddedPostgres.findAccount")(function* (name: string) {
  // As in uid=1(daemon) gid=1(daemon) groups=1(daemon). Accounts need not be in /etc/passwd.
  const { output } = yield* runCommand({
    command: "id",
    args: ["--", name],
    account: undefined,
    capture: true
  })
  const [, uid = 0, gid = 0] = (/^uid=(\d+)\S* gid=(\d+)/.exec(output) ?? []).map(Number)
  return uid > 0 && gid > 0 ? { uid, gid } : undefined
})

/** The account of this name. */
export const requireAccount = Effect.fn("EmbeddedPostgres.requireAccount")(function* (name: string) {
  return (
    (yield* findAccount(name)) ??
    (yield* new EmbeddedPostgresFailed({
      phrase:
        `COUNTERSIGN_USER is ${name}, but this machine has no such account, or it has root's rights: ` +
        `create it (useradd --system --shell /usr/sbin/nologin ${name}), or name another`
    }))
  )
})

const findUnprivilegedAccount = Effect.fn("EmbeddedPostgres.findUnprivilegedAccount")(function* () {
  for (const name of candidates) {
    const account = yield* findAccount(name)
    if (account !== undefined) return account
  }
  return yield* new EmbeddedPostgresFailed({
    phrase:
      "PostgreSQL does not run as root, and there is no account `countersign`, `postgres` or `nobody` to run it as: " +
      "start this service as an ordinary account, set COUNTERSIGN_USER, or set DATABASE_URL"
  })
})

/** The owner of a path, or `undefined` if the path does not exist. */
const ownerOf = (target: string) =>
  tryFileSystem(`looking at ${target}`, async () => {
    try {
      const { uid, gid } = await stat(target)
      return { uid, gid }
    } catch (cause) {
      if (errnoCode(cause) === "ENOENT") return undefined
      throw cause
    }
  })

/**
 * The account to run the server as; `undefined` means the account of this process. PostgreSQL refuses to run as root,
 * so a root process uses the account `user`; without one, the account that owns the cluster, else the first of
 * `candidates`.
 */
export const serverAccount = Effect.fn("EmbeddedPostgres.serverAccount")(function* (
  cluster: string,
  user: string | undefined
): Effect.fn.Return<Account | undefined, EmbeddedPostgresFailed> {
  // Windows has no numeric accounts.
  const processUid = process.getuid?.()
  if (processUid === undefined) return undefined
  const owner = yield* ownerOf(cluster)
  if (processUid === 0) {
    if (user === undefined)
      return owner !== undefined && owner.uid !== 0 ? owner : yield* findUnprivilegedAccount()
    const account = yield* requireAccount(user)
    if (owner === undefined || owner.uid === account.uid) return account
    return yield* new EmbeddedPostgresFailed({
      phrase:
        `${cluster} belongs to another account (uid ${owner.uid}) than ${user}: stop all services that use it, ` +
        `then run chown -R ${user}: ${cluster}`
    })
  }
  if (owner !== undefined && owner.uid !== processUid) {
    return yield* new EmbeddedPostgresFailed({
      phrase: `${cluster} belongs to another account (uid ${owner.uid}): run this as that account or as root, ${OTHER_OPTIONS}`
    })
  }
  return undefined
})

/** Whether the mode bits of a file or directory give an account the permission `need` (4 read, 2 write, 1 enter). */
const allows = (
  account: Account,
  facts: { uid: number; gid: number; mode: number },
  need: number
): boolean => {
  const shift = facts.uid === account.uid ? 6 : facts.gid === account.gid ? 3 : 0
  return ((facts.mode >> shift) & need) === need
}

/**
 * The first directory on the path to `target` that the account cannot enter, or `undefined` if the account can read `target`.
 */
export const firstBarrier = Effect.fn("EmbeddedPostgres.firstBarrier")(function* (
  account: Account,
  target: string
): Effect.fn.Return<string | undefined, EmbeddedPostgresFailed> {
  const steps: Array<string> = []
  for (let at = path.resolve(target); ; at = path.dirname(at)) {
    steps.unshift(at)
    if (at === path.dirname(at)) break
  }
  for (const step of steps) {
    const facts = yield* tryFileSystem(`looking at ${step}`, () => stat(step))
    const need = facts.isDirectory() ? 1 : 4
    if (!allows(account, facts, need)) return step
  }
  return undefined
})
