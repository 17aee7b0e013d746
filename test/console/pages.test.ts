import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Page } from "playwright-core"
import { Countersign } from "../../src/testing/index.ts"
import { Browser, goTo, skipWithoutBrowser, openSignedIn } from "../support/browser.ts"
import { seedConsoleOrg } from "../support/seedConsoleOrg.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

const navigation = (page: Page): Promise<ReadonlyArray<string>> =>
  page.getByRole("navigation").getByRole("link").allInnerTexts()

/** What can be done on a page: its buttons, and links that look like one, but for those that only show something. */
const actions = async (page: Page): Promise<ReadonlyArray<string>> => {
  const names = await page.locator("main").locator("button, a.button").allInnerTexts()
  return names.map((name) => name.replace(/\s+/g, " ").trim()).filter((name) => !/^$|show|^←/.test(name))
}

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })(
  "the console in a browser",
  (it) => {
    const test = skipWithoutBrowser(it)

    test("shows each key the pages that its scopes open, and no other", () =>
      Effect.gen(function* () {
        const admin = yield* openSignedIn({ preset: "admin" }, "/approvals")
        const reviewer = yield* openSignedIn({ preset: "reviewer" }, "/keys")
        assert.sameMembers(
          [...(yield* Effect.promise(() => navigation(reviewer.page)))],
          ["Approvals", "Feedback", "Sessions", "Rules", "Tasks"]
        )
        assert.sameMembers(
          [...(yield* Effect.promise(() => navigation(admin.page)))],
          [
            ...["Approvals", "Feedback", "Sessions", "Rules", "Tasks"],
            ...["Notifications", "Telemetry", "Keys", "Audit log"]
          ]
        )
        yield* Effect.promise(async () => {
          await reviewer.page.getByText("This key does not open the page").waitFor()
          // An address that is none of ours, and one that is no text at all.
          await goTo(reviewer.page, "/approvals/%E0%A4%A")
          await reviewer.page.getByRole("heading", { name: "Approvals" }).waitFor()
        })
      }).pipe(Effect.scoped, Effect.orDie))

    test(
      "offers a reviewer nothing, on any page, that would be refused",
      () =>
        Effect.gen(function* () {
          const { key } = yield* Countersign
          const at = yield* seedConsoleOrg("reviewer")
          const { faults, page } = yield* openSignedIn(
            yield* key({ preset: "reviewer" }, "reviewer"),
            "/approvals"
          )
          const refused: Array<string> = []
          page.on("response", (response) => {
            if (response.status() === 403) refused.push(response.url())
          })
          const tabs = ["About", "Datasets", "Comparisons", "Releases"]
          for (const [path, shows, offered] of [
            ["/approvals", "Waiting 1", ["Waiting 1", "Closed"]],
            [`/approvals/${at.approval_id}`, "Arguments", ["Waiting 1", "Closed", "Approve a", "Reject r"]],
            [`/feedback/${at.feedback_id}`, "Correction", ["Stage s", "Reject r"]],
            [`/promotion/${at.task_id}`, "examples added", []],
            ["/sessions", "ticket: 4711", ["Load anew"]],
            [`/sessions/${at.session_id}`, "1-look-up", []],
            ["/rules", "Reading harms nobody", []],
            ["/tasks", "newest version", []],
            [`/tasks/${at.task_id}`, "At work", tabs],
            [`/tasks/${at.task_id}/datasets`, "Version 2", tabs],
            [`/tasks/${at.task_id}/comparisons`, "completed", tabs],
            [`/tasks/${at.task_id}/releases`, "it is the first", tabs],
            [`/datasets/${at.dataset_id}`, "1 added", ["Differences", "Examples"]],
            [`/comparisons/${at.comparison_id}`, "Look at it", ["Look at it"]]
          ] as const) {
            const found = yield* Effect.promise(async () => {
              await goTo(page, path)
              await page.locator("main").getByText(shows).first().waitFor()
              return actions(page)
            })
            // What the lists beside them hold are ways to read, each named by what it opens.
            const rest = found.filter((name) => !/by (Ada|Grace)|refund/.test(name))
            assert.deepStrictEqual([...new Set(rest)], [...offered], path)
          }
          for (const path of ["/tasks/new", `/tasks/${at.task_id}/edit`, "/endpoints", "/keys", "/audit"]) {
            yield* Effect.promise(async () => {
              await goTo(page, path)
              await page.getByText("This key does not open the page").waitFor()
            })
          }
          assert.deepStrictEqual([refused, faults], [[], []])
        }).pipe(Effect.scoped, Effect.orDie),
      60_000
    )
  }
)
