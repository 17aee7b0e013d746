import { Command, Flag } from "effect/cli"
import { lazily } from "./lazily.ts"
import { secretFlags } from "./secretFlag.ts"

/** Where `demo` finds the key of a running service. */
export const demoKey = { flag: "key", variable: "COUNTERSIGN_ADMIN_KEY", what: "Admin key of that service" }

const demo = lazily(async () => (await import("./demo/demo.ts")).demo)

const learning = Command.make(
  "learning",
  {},
  lazily(async () => (await import("./demo/learning.ts")).learning)
).pipe(
  Command.withShortDescription("Correct a model's answers and see it improve"),
  Command.withDescription(
    "Run the learning loop end to end, on a temporary service and a model that answers right only if its prompt shows a " +
      "similar example: wrong answers are corrected, staged, promoted, compared and released. Prints the agreement on " +
      "messages that are never in the dataset, before and after. Exits with code 0 only if it rose."
  ),
  Command.withExamples([
    { command: "countersign demo learning", description: "Use a temporary service and database" }
  ])
)

const once = Command.make(
  "once",
  {},
  lazily(async () => (await import("./demo/once.ts")).once)
).pipe(
  Command.withShortDescription("Crash an agent between its payment and its report"),
  Command.withDescription(
    "Two agents resume an approved payment at once, on a temporary service: one of them pays, and is stopped before it reports the outcome. " +
      "The other one does not pay again, and a person resolves the uncertain execution. Then a budget for vouchers runs out. Exits with code 0 " +
      "only if there was exactly one payment and the budget was kept."
  ),
  Command.withExamples([
    { command: "countersign demo once", description: "Use a temporary service and database" }
  ])
)

const autonomy = Command.make(
  "autonomy",
  {},
  lazily(async () => (await import("./demo/autonomy.ts")).autonomy)
).pipe(
  Command.withShortDescription("A reviewer model earns the right to decide, and loses it"),
  Command.withDescription(
    "A scripted model answers beside people on a temporary service, earns the right to decide at its bound, decides, and loses the right " +
      "once people disagree with it. Then three models try to cheat: one always approves, one agrees on easy steps only, one obeys a text in " +
      "the arguments. Exits with code 0 only if all of it happened, and no cheat kept the right."
  ),
  Command.withExamples([
    { command: "countersign demo autonomy", description: "Use a temporary service and database" }
  ])
)

export const demoCommand = Command.make(
  "demo",
  {
    url: Flag.String("url").pipe(
      Flag.withDescription("URL of a running service on this machine; default: start one for the demo"),
      Flag.optional
    ),
    ...secretFlags(demoKey)
  },
  demo
).pipe(
  Command.withShortDescription("Run one approval end to end"),
  Command.withDescription(
    "Run one approval end to end with a real receiver: an agent requests a step, a reviewer approves it, and both " +
      "webhooks arrive with valid signatures. Exits with code 0 only if everything succeeded."
  ),
  Command.withExamples([
    { command: "countersign demo", description: "Use a temporary service and database" },
    {
      command: "COUNTERSIGN_ADMIN_KEY=csk_… countersign demo --url http://127.0.0.1:8080",
      description: "Use a running service that may send to loopback"
    }
  ]),
  Command.withSubcommands([learning, once, autonomy])
)
