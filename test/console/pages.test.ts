import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Page, Request } from "playwright-core"
import { Countersign } from "../../src/testing/index.ts"
import { Browser, goTo, skipWithoutBrowser, openSignedIn } from "../support/browser.ts"
import { eventually } from "../support/eventually.ts"
import { seedConsoleOrg } from "../support/seedConsoleOrg.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

const navigation = (page: Page): Promise<ReadonlyArray<string>> =>
  page.getByRole("navigation").getByRole("link").allInnerTexts()

/**
 * The names of a page's actions: its buttons and button-like links, except controls that only expand or navigate back.
 */
const actions = async (page: Page): Promise<ReadonlyArray<string>> => {
  const names = await page
    .locator("main")
    .locator("button, a.button")
    .filter({ visible: true })
    .allInnerTexts()
  return names.map((name) => name.replace(/\s+/g, " ").trim()).filter((name) => !/^$|show|^←/.test(name))
}

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Console pages", (it) => {
  const test = skipWithoutBrowser(it)

  test("the navigation lists exactly the pages that the scopes of the key allow", () =>
    Effect.gen(function* () {
      const admin = yield* openSignedIn({ preset: "admin" }, "/approvals")
      const reviewer = yield* openSignedIn({ preset: "reviewer" }, "/keys")
      assert.sameMembers(
        [...(yield* Effect.promise(() => navigation(reviewer.page)))],
        [
          "Overview",
          "Approvals",
          "Feedback",
          "Sessions",
          "Grants",
          "Executions",
          "Rules",
          "Reviewers",
          "Tasks",
          "Runs",
          "Signed-in browsers"
        ]
      )
      assert.sameMembers(
        [...(yield* Effect.promise(() => navigation(admin.page)))],
        [
          ...[
            "Overview",
            "Approvals",
            "Feedback",
            "Sessions",
            "Grants",
            "Executions",
            "Rules",
            "Reviewers",
            "Tasks",
            "Runs"
          ],
          ...[
            "Notifications",
            "Deliveries",
            "Telemetry",
            "End-user feedback",
            "Data",
            "API keys",
            "People",
            "Audit log",
            "Signed-in browsers"
          ]
        ]
      )
      yield* Effect.promise(async () => {
        await reviewer.page.getByText("You don't have access to this page").waitFor()
        // A path with malformed percent-encoding.
        await goTo(reviewer.page, "/approvals/%E0%A4%A")
        await reviewer.page.getByRole("heading", { name: "Approvals", exact: true }).waitFor()
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test(
    "no page offers a reviewer an action that the API would refuse",
    () =>
      Effect.gen(function* () {
        const { key } = yield* Countersign
        const at = yield* seedConsoleOrg("reviewer")
        const { pageErrors, page } = yield* openSignedIn(
          yield* key({ preset: "reviewer" }, "reviewer"),
          "/approvals"
        )
        const refused: Array<string> = []
        page.on("response", (response) => {
          if (response.status() === 403) refused.push(response.url())
        })
        const tabs = ["Overview", "Runs", "Datasets", "Comparisons", "Releases"]
        const inbox = ["Pending 1", "Closed", "Mine 1", "All 1", "Admins 0", "List", "Tool", "Session"]
        for (const [path, shows, offered] of [
          ["/approvals", "Pending 1", inbox],
          [
            `/approvals/${at.approval_id}`,
            "Message to the agent",
            [...inbox, "Select x", "Send", "Approve a", "Reject r", "Request changes c"]
          ],
          [`/feedback/${at.feedback_id}`, "Correction", ["Export", "Stage s", "Reject r", "Fix and stage"]],
          [`/promotion/${at.task_id}`, "examples added", []],
          ["/sessions", "ticket: 4711", ["All", "Open", "Closed", "Export"]],
          [`/sessions/${at.session_id}`, "1-look-up", []],
          ["/grants", "No active grants", []],
          ["/rules", "Read-only", ["Past steps", "Shadow rules", "Suggestions", "Try the rules"]],
          ["/tasks", "Version 2", ["Export"]],
          [`/tasks/${at.task_id}`, "Configuration", tabs],
          ["/runs", "Answered by", ["All", "Answered", "Failed", "Export"]],
          [`/tasks/${at.task_id}/runs`, "Answered by", [...tabs, "All", "Answered", "Failed", "Export"]],
          [
            `/runs/${at.trace_id}`,
            "Your feedback",
            ["Correct c", "Correct, add as example a", "Incorrect i", "Correct the answer e"]
          ],
          [`/tasks/${at.task_id}/datasets`, "Version 2", tabs],
          [`/tasks/${at.task_id}/comparisons`, "Completed", tabs],
          [`/tasks/${at.task_id}/releases`, "first release", tabs],
          [`/datasets/${at.dataset_id}`, "1 added", ["Export as JSON Lines", "Differences", "Examples"]],
          [
            `/comparisons/${at.comparison_id}`,
            "View details",
            ["All 3", "Fixed 1", "Broken 0", "Both wrong 0", "Both right 2", "View details"]
          ]
        ] as const) {
          yield* Effect.promise(async () => {
            await goTo(page, path)
            await page.locator("main").getByText(shows).first().waitFor()
          })
          // Rows of the lists beside the page only open an entry; their names contain an actor or a tool. Copying asks nothing of the API.
          const found = Effect.map(
            Effect.promise(() => actions(page)),
            (names) => [...new Set(names.filter((name) => !/by (Ada|Grace)|refund|^Copy/.test(name)))]
          )
          // A part of the page may come after the text.
          const rest = yield* eventually(found, ({ length }) => length >= offered.length)
          assert.deepStrictEqual(rest, [...offered], path)
        }
        for (const path of [
          "/tasks/new",
          `/tasks/${at.task_id}/edit`,
          "/endpoints",
          "/end-user-feedback",
          "/keys",
          "/people",
          "/audit"
        ]) {
          yield* Effect.promise(async () => {
            await goTo(page, path)
            await page.getByText("You don't have access to this page").waitFor()
          })
        }
        assert.deepStrictEqual([refused, pageErrors], [[], []])
      }).pipe(Effect.scoped, Effect.orDie),
    120_000
  )

  test("a page asks for nothing that the scope which opens it does not allow", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const at = yield* seedConsoleOrg("narrow")
      const refused: Array<string> = []
      for (const [scope, path, shows] of [
        ["feedback.read", `/feedback/${at.feedback_id}`, "Correction"],
        ["datasets.read", `/datasets/${at.dataset_id}`, "1 added"],
        ["runs.read", `/runs/${at.trace_id}`, "Answer"],
        ["sessions.read", `/sessions/${at.session_id}`, "1-look-up"],
        ["approvals.read", `/approvals/${at.approval_id}`, "Arguments"],
        ["tasks.read", `/comparisons/${at.comparison_id}`, "Inputs and answers are not shown"]
      ] as const) {
        const { page } = yield* openSignedIn(yield* key({ scopes: [scope] }, "narrow"), "/browsers")
        const requests: Array<Request> = []
        page.on("request", (request) => void requests.push(request))
        yield* Effect.promise(async () => {
          await goTo(page, path)
          await page.locator("main").getByText(shows).first().waitFor()
          if (scope !== "sessions.read")
            assert.strictEqual(await page.locator("main a[href*='/sessions/']").count(), 0, path)
          for (const request of requests) {
            const response = await request.response()
            if (response?.status() === 403) refused.push(`${scope}: ${request.url()}`)
          }
        })
      }
      assert.deepStrictEqual(refused, [])
    }).pipe(Effect.scoped, Effect.orDie))
})
