import { Context, Effect, Schema } from "effect"

/** A system account that a process of root can change to. */
export interface SystemAccount {
  readonly name: string
  readonly uid: number
  readonly gid: number
}

/**
 * The account that the process changes to once it listens; undefined: it keeps its own. Only the command line sets this: a service that is
 * composed into another program must not change the account of that program.
 */
export const AccountAfterListening = Context.Reference<SystemAccount | undefined>(
  "countersign/server/http/AccountAfterListening",
  { defaultValue: () => undefined }
)

/** The system did not let this process change its account. */
export class AccountNotChanged extends Schema.TaggedError<AccountNotChanged>()("AccountNotChanged", {
  account: Schema.String,
  cause: Schema.Defect()
}) {
  override get message(): string {
    return (
      `this process may not change to the account ${this.account}, as in a container without the capabilities ` +
      "SETUID and SETGID: start it as an ordinary account"
    )
  }
}

/**
 * Changes the account of the whole process for good, with its primary group only. The groups come first, because an
 * ordinary account may not change them. The system then denies other processes of the account the memory and the
 * environment of this one, which contain secrets (Linux: it is no longer "dumpable").
 */
export const changeAccount = Effect.fn("changeAccount")(function* (account: SystemAccount) {
  yield* Effect.try({
    try: () => {
      process.setgroups?.([account.gid])
      process.setgid?.(account.gid)
      process.setuid?.(account.uid)
    },
    catch: (cause) => new AccountNotChanged({ account: account.name, cause })
  })
  // By default SIGUSR1, which every process of the account may send, opens Node's debugger to all local accounts.
  process.on("SIGUSR1", () => {})
  yield* Effect.logInfo(`Running as the account ${account.name} (uid ${account.uid})`)
})
