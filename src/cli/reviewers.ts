import { Argument, Command, Flag } from "effect/cli"
import { DEFAULT_TERMS } from "../domain/approvals/Reviewer.ts"
import { lazily } from "./lazily.ts"
import { secretFlags } from "./secretFlag.ts"
import { serviceUrlFlag } from "./serviceUrl.ts"

/** Where the commands find their API key. */
export const reviewersKey = {
  flag: "key",
  variable: "COUNTERSIGN_KEY",
  what: "API key with the scope approvals.read, and rules.write to stop and restore"
}

const connection = {
  url: serviceUrlFlag,
  ...secretFlags(reviewersKey)
}

const reviewer = Argument.String("reviewer").pipe(
  Argument.withDescription("ID of the reviewer model, tsk_…, as `reviewers list` prints it")
)

const terms = {
  minLowerBound: Flag.Finite("min-lower-bound").pipe(
    Flag.withDescription(`Least agreement with people, 0.5 to 1; default: ${DEFAULT_TERMS.min_lower_bound}`),
    Flag.withDefault(DEFAULT_TERMS.min_lower_bound)
  ),
  maxFalseApprovals: Flag.Finite("max-false-approvals").pipe(
    Flag.withDescription(
      `Greatest share of approvals that people reject, 0 to 1; default: ${DEFAULT_TERMS.max_false_approvals}`
    ),
    Flag.withDefault(DEFAULT_TERMS.max_false_approvals)
  )
}

const handlers = () => import("./reviewers/handlers.ts")

const list = Command.make(
  "list",
  connection,
  lazily(async () => (await handlers()).listReviewers)
).pipe(Command.withDescription("List the reviewer models with their state"))

const show = Command.make(
  "show",
  { ...connection, ...terms, reviewer },
  lazily(async () => (await handlers()).showReviewer)
).pipe(
  Command.withDescription(
    "Print how often people agreed with a reviewer model, per tool and band of amounts, and how many decisions are missing for the bounds"
  )
)

const backtest = Command.make(
  "backtest",
  {
    ...connection,
    ...terms,
    sample: Flag.Finite("sample").pipe(
      Flag.withDescription("Share of the steps that go to people nevertheless, 0.05 to 1; default: 0.1"),
      Flag.optional
    ),
    days: Flag.Int("days").pipe(
      Flag.withDescription("Days to look back, 1 to 90; default: 30"),
      Flag.optional
    ),
    reviewer
  },
  lazily(async () => (await handlers()).backtestReviewer)
).pipe(Command.withDescription("Print what a reviewer model would have decided within bounds"))

const stop = Command.make(
  "stop",
  { ...connection, reviewer },
  lazily(async () => (await handlers()).stopReviewer)
).pipe(Command.withDescription("Send every step back to people at once"))

const restore = Command.make(
  "restore",
  { ...connection, reviewer },
  lazily(async () => (await handlers()).restoreReviewer)
).pipe(Command.withDescription("Let a stopped reviewer model decide again, where a rule lets it"))

export const reviewersCommand = Command.make("reviewers").pipe(
  Command.withShortDescription("Figures and state of reviewer models"),
  Command.withDescription(
    "Reviewer models answer like reviewers and are measured against people: print their figures, stop and restore them."
  ),
  Command.withSubcommands([list, show, backtest, stop, restore])
)
