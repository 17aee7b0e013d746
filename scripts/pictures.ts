/**
 * Makes pictures of the console, of a service with ordinary records.
 *
 *     npm run pictures                        makes those in docs/images anew
 *     npm run pictures -- --all DIR           every page, 1440, 1024 and 390 pixels wide, light and dark, in a directory
 */
import { Effect, Layer } from "effect"
import { mkdirSync } from "node:fs"
import path from "node:path"
import { parseArgs } from "node:util"
import { StepId } from "../src/domain/Ids.ts"
import { routes } from "../src/console/app/routes.ts"
import { Countersign } from "../src/testing/index.ts"
import { Browser, goTo, openSignedIn } from "../test/support/browser.ts"
import { seedConsoleOrg } from "../test/support/seedConsoleOrg.ts"

const ORGANIZATION = "acme"

/** Steps that wait for a person, as agents of a shop request them. */
const steps = [
  { tool: "payments.refund", amount: 129_000, order: "4711", customer: "Maria Weber", ticket: "SUP-9001" },
  { tool: "payments.refund", amount: 1_990, order: "4698", customer: "Jonas Becker", ticket: "SUP-8994" },
  { tool: "orders.cancel", amount: 45_900, order: "4720", customer: "Aylin Kaya", ticket: "SUP-9004" },
  { tool: "mail.send", amount: 0, order: "4702", customer: "Pavel Novák", ticket: "SUP-8999" },
  { tool: "payments.refund", amount: 8_450, order: "4688", customer: "Chloé Martin", ticket: "SUP-8981" }
] as const

/** Creates the records that the pictures show. Returns what `seedConsoleOrg` created. */
const seed = Effect.gen(function* () {
  const { client } = yield* Countersign
  const ids = yield* seedConsoleOrg(ORGANIZATION)
  const agent = yield* client({ preset: "runtime", name: "support agent" }, ORGANIZATION)
  for (const { amount, customer, order, ticket, tool } of steps) {
    const { session_id } = yield* agent.sessions.create({ payload: { metadata: { ticket, customer } } })
    const lookUp = yield* agent.sessions.step({
      params: { id: session_id },
      payload: {
        step_id: StepId.make("look-up"),
        tool: "search.orders",
        action_class: "read",
        arguments: { order }
      }
    })
    yield* agent.sessions.reportOutcome({
      params: { id: session_id, step_id: lookUp.step_id },
      payload: { status: "succeeded", result: { order, customer, total_cents: 12_900 } }
    })
    yield* agent.sessions.step({
      params: { id: session_id },
      payload: {
        step_id: StepId.make("act"),
        tool,
        action_class: "write",
        arguments: { order, amount_cents: amount, currency: "EUR", reason: "The parcel arrived late" }
      }
    })
  }
  return ids
})

interface Picture {
  readonly name: string
  readonly path: string
}

/** The pictures of the documents. */
const documentPictures: ReadonlyArray<Picture> = [
  { name: "console-approvals", path: "/approvals" },
  { name: "console-overview", path: "/overview" }
]

/** Every page that the navigation lists, and a page of each kind of record. */
const allPictures = (ids: Effect.Success<typeof seed>): ReadonlyArray<Picture> => [
  ...routes
    .filter(({ nav }) => nav !== undefined)
    .map((route) => route.path.replace(/\/:\w+\?$/, ""))
    .map((page) => ({ name: page.slice(1), path: page })),
  { name: "approval", path: `/approvals/${ids.approval_id}` },
  { name: "approval-decided", path: `/approvals/${ids.decided_id}` },
  { name: "feedback-one", path: `/feedback/${ids.feedback_id}` },
  { name: "promotion", path: `/promotion/${ids.task_id}` },
  { name: "session", path: `/sessions/${ids.session_id}` },
  { name: "task", path: `/tasks/${ids.task_id}` },
  { name: "task-releases", path: `/tasks/${ids.task_id}/releases` },
  { name: "task-edit", path: `/tasks/${ids.task_id}/edit` },
  { name: "task-new", path: "/tasks/new" },
  { name: "run", path: `/runs/${ids.trace_id}` },
  { name: "dataset", path: `/datasets/${ids.dataset_id}` },
  { name: "comparison", path: `/comparisons/${ids.comparison_id}` },
  { name: "endpoint", path: `/endpoints/${ids.endpoint_id}` },
  { name: "browsers", path: "/browsers" }
]

const take = Effect.fnUntraced(function* (
  directory: string,
  pictures: ReadonlyArray<Picture>,
  widths: ReadonlyArray<number>,
  schemes: ReadonlyArray<"light" | "dark">
) {
  mkdirSync(directory, { recursive: true })
  const { key } = yield* Countersign
  const secret = yield* key({ name: "Ada Lovelace", email: "ada@example.com" }, ORGANIZATION)
  for (const colorScheme of schemes) {
    const { page } = yield* openSignedIn(secret, "/browsers", { colorScheme })
    for (const width of widths) {
      for (const picture of pictures) {
        yield* Effect.promise(async () => {
          await page.setViewportSize({ width, height: width === 390 ? 844 : 900 })
          await goTo(page, picture.path)
          await page.locator("#content h1").first().waitFor()
          await page.waitForFunction(() => document.querySelector(".skeleton") === null)
          if (picture.path === "/approvals" && width > 1_000) {
            await page.getByRole("option").last().click()
            await page.getByText("Arguments").first().waitFor()
          }
          const suffix = widths.length * schemes.length > 1 ? `-${width}-${colorScheme}` : ""
          await page.screenshot({ path: path.join(directory, `${picture.name}${suffix}.png`) })
        })
      }
    }
  }
})

const { values } = parseArgs({ options: { all: { type: "string" } } })

const make = Effect.gen(function* () {
  const ids = yield* seed
  yield* values.all === undefined
    ? take(path.join(import.meta.dirname, "..", "docs", "images"), documentPictures, [1_440], ["light"])
    : take(values.all, allPictures(ids), [1_440, 1_024, 390], ["light", "dark"])
})

await Effect.runPromise(
  make.pipe(Effect.scoped, Effect.provide(Layer.provideMerge(Browser.layer, Countersign.layer())))
)
