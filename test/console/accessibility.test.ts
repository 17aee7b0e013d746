import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Page } from "playwright-core"
import { Countersign } from "../../src/testing/index.ts"
import {
  accessibilityViolations,
  Browser,
  goTo,
  skipWithoutBrowser,
  horizontalOverflow,
  openSignedIn
} from "../support/browser.ts"
import { seedConsoleOrg, hostileTexts } from "../support/seedConsoleOrg.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(
  Browser.layer,
  service({ environment: { COUNTERSIGN_NOTIFY_RETRY_SECONDS: "0" } })
)

/** A page to check: its path, a text that shows it has loaded, and the actions that open its dialogs or sections. */ interface PageCase {
  readonly path: string
  readonly shows: string | RegExp
  readonly open?: ReadonlyArray<(page: Page) => Promise<unknown>>
  /** Whether it is also checked at the size of a phone, with its parts open. Approvals always are. */
  readonly onPhone?: true
}

const press = (name: string | RegExp) => (page: Page) => page.getByRole("button", { name }).first().click()

const pressAndWait = (name: string, text: string | RegExp) => async (page: Page) => {
  await press(name)(page)
  await page.getByText(text).first().waitFor()
}

/** Opens the sheet that decides the selected approvals. */
const openSheet = async (page: Page) => {
  await page.getByRole("button", { name: "Review and decide" }).click()
  await page.getByRole("button", { name: "Reject 1" }).waitFor()
}

/** Shows all arguments of an approval, page by page. */
const showArguments = async (page: Page) => {
  const more = page.getByRole("button", { name: /^Show (?:all arguments|the rest)/ })
  const approve = page.getByRole("button", { name: /^Approve/ })
  while ((await approve.count()) === 0) {
    await more.first().click()
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => resolve(null))))
  }
}

/** Opens the changes of the next release whose changes are closed, and waits until they show a text. */
const openChanges = (text: string) => async (page: Page) => {
  await page.locator("details:not([open])").getByText("Changes", { exact: true }).first().click()
  await page.getByText(text).waitFor()
}

type SeededOrg = Effect.Success<ReturnType<typeof seedConsoleOrg>>

/** The pages of reviews and agents. */
const review = (at: SeededOrg): ReadonlyArray<PageCase> => [
  {
    path: "/overview",
    shows: "Time to decision, p95",
    onPhone: true,
    open: [(page) => page.locator(".chart-table > summary").first().click()]
  },
  { path: "/approvals", shows: /Pending 1/, open: [press("Closed")] },
  {
    path: `/approvals/${at.approval_id}`,
    shows: "Arguments",
    open: [
      showArguments,
      press(/^Approve/),
      press("Cancel"),
      press(/^Reject/),
      press("Cancel"),
      press(/^Select/),
      openSheet,
      press("Cancel")
    ]
  },
  { path: `/approvals/${at.decided_id}`, shows: /Returned to the agent/ },
  { path: `/approvals/apr_${"0".repeat(32)}`, shows: /No such approval in/ },
  { path: "/feedback", shows: "✕ Incorrect" },
  { path: `/feedback/${at.feedback_id}`, shows: "Protected values were removed", open: [press(/^Reject/)] },
  { path: `/promotion/${at.task_id}`, shows: "examples added" },
  { path: "/sessions", shows: /ticket: 4711/, open: [press("Export")], onPhone: true },
  { path: "/executions", shows: "Nothing to resolve", onPhone: true },
  { path: "/search?text=onload", shows: /svg/, onPhone: true },
  { path: `/sessions/${at.session_id}`, shows: "1-look-up", open: [press("Close session")] },
  { path: "/grants", shows: "No active grants" },
  {
    path: "/rules",
    shows: "Read-only",
    open: [
      pressAndWait("Try the rules", /[0-9] steps evaluated/),
      pressAndWait("Shadow rules", "Reload"),
      pressAndWait("Promote", "Make the shadow rules live?"),
      press("Cancel"),
      pressAndWait("Suggestions", /From the newest/),
      press("New rule"),
      press("Add condition")
    ]
  }
]

/** The pages of tasks and settings. */
const settings = (at: SeededOrg): ReadonlyArray<PageCase> => [
  { path: "/tasks", shows: "Version 2" },
  {
    path: "/tasks/new",
    shows: "Input schema",
    open: [(page) => page.getByLabel(/^OpenAI-compatible model/).check()]
  },
  { path: `/tasks/${at.task_id}`, shows: "Configuration" },
  { path: "/runs", shows: "Answered by", open: [press("Export")], onPhone: true },
  { path: `/tasks/${at.task_id}/runs`, shows: "Answered by" },
  { path: `/runs/${at.trace_id}`, shows: "Your feedback", open: [press(/^Correct the answer/)] },
  { path: `/tasks/${at.task_id}/playground`, shows: "Try both" },
  { path: `/tasks/${at.task_id}/edit`, shows: "Save working copy" },
  { path: `/tasks/${at.task_id}/datasets`, shows: "Version 2", open: [press("Add examples")] },
  { path: `/tasks/${at.task_id}/comparisons`, shows: "Completed" },
  {
    path: `/tasks/${at.task_id}/releases`,
    shows: "first release",
    open: [openChanges("Compared with the release before"), openChanges("everything in it is new")]
  },
  { path: `/datasets/${at.dataset_id}`, shows: "1 added", open: [press("Examples")] },
  {
    path: `/comparisons/${at.comparison_id}?verdict=win`,
    shows: "Cost and latency",
    open: [press("View details"), (page) => page.getByText("Examples that changed").first().click()],
    onPhone: true
  },
  { path: "/endpoints", shows: "http://127.0.0.1:9", open: [press("New endpoint")] },
  {
    path: `/endpoints/${at.endpoint_id}`,
    shows: "Deliveries",
    open: [press("Edit"), press("Cancel"), press("Replay failed deliveries")],
    onPhone: true
  },
  {
    path: "/deliveries",
    shows: "All deliveries",
    open: [press("Export")],
    onPhone: true
  },
  {
    path: `/endpoints/${at.endpoint_id}/deliveries/${at.delivery_id}`,
    shows: "Verify the signature",
    open: [press("Java")]
  },
  { path: "/telemetry", shows: "spans queued", open: [press("Remove")] },
  { path: "/end-user-feedback", shows: "Allowed origins" },
  {
    path: "/keys?status=all&order=name",
    shows: "Retired worker",
    open: [
      press("Edit"),
      async (page) => {
        await page.keyboard.press("Escape")
        await press("New key")(page)
        await page.getByLabel(/^custom/).check()
      }
    ]
  },
  { path: "/people", shows: "No people yet" },
  { path: "/approvals?tab=closed&outcome=decided", shows: "Until" },
  { path: "/feedback?status=all&score=-1&from=2020-01-01Z", shows: "Incorrect" },
  { path: "/sessions?text=nothing-like-it", shows: "No matching sessions" },
  { path: "/browsers", shows: "this browser", open: [press("End session")] },
  { path: "/data", shows: "No deletions yet", onPhone: true },
  { path: "/audit", shows: "approved a step:", open: [(page) => page.getByText("Details").first().click()] },
  { path: "/no/such/page", shows: "Page not found" }
]

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Console accessibility", (it) => {
  const test = skipWithoutBrowser(it)

  for (const [name, pagesOf] of [
    ["pages of reviews and agents", review],
    ["pages of tasks and settings", settings]
  ] as const) {
    test(
      `${name} meet WCAG 2.2 AA in light and dark mode with hostile content, run none of it and do not overflow on a phone`,
      () =>
        Effect.gen(function* () {
          const { key } = yield* Countersign
          const at = yield* seedConsoleOrg(name, hostileTexts)
          const { pageErrors, page } = yield* openSignedIn(yield* key({ name: "Grace" }, name), "/approvals")
          const check = Effect.fnUntraced(function* (path: string) {
            yield* Effect.promise(() => page.emulateMedia({ colorScheme: "light" }))
            assert.deepStrictEqual(yield* accessibilityViolations(page), [], path)
            yield* Effect.promise(() => page.emulateMedia({ colorScheme: "dark" }))
            assert.deepStrictEqual(yield* accessibilityViolations(page, "contrast"), [], `${path}, dark`)
          })
          for (const { onPhone = false, open = [], path, shows } of pagesOf(at)) {
            yield* Effect.promise(async () => {
              await goTo(page, path)
              await page.locator("#content").getByText(shows).first().waitFor()
            })
            yield* check(path)
            for (const part of open) {
              yield* Effect.promise(() => part(page))
              yield* check(`${path}, with a part open`)
            }
            yield* Effect.promise(async () => {
              await page.setViewportSize({ width: 390, height: 844 })
              assert.strictEqual(await horizontalOverflow(page), 0, `${path} on a phone`)
            })
            // Approvals are decided on phones, so they are checked at that size as well.
            if (onPhone || path.startsWith("/approvals")) yield* check(`${path} on a phone`)
            yield* Effect.promise(async () => {
              await page.setViewportSize({ width: 1280, height: 720 })
              assert.strictEqual(
                await page.locator("#injected, img, iframe, svg[onload], [onerror], main script").count(),
                0,
                path
              )
            })
          }
          assert.deepStrictEqual(pageErrors, [])
        }).pipe(Effect.scoped, Effect.orDie),
      240_000
    )
  }

  test(
    "pages of an empty organization meet WCAG 2.2 AA and explain what will appear there",
    () =>
      Effect.gen(function* () {
        const { key } = yield* Countersign
        const { page } = yield* openSignedIn(yield* key({}, "empty"), "/approvals")
        for (const [path, shows] of [
          ["/overview", "No pending approvals"],
          ["/approvals", "No pending approvals"],
          ["/feedback", "No feedback to review"],
          ["/sessions", "No sessions yet"],
          ["/rules", "No rules"],
          ["/tasks", "No tasks yet"],
          ["/endpoints", "No webhook endpoints"],
          ["/telemetry", "No collector"]
        ] as const) {
          yield* Effect.promise(async () => {
            await goTo(page, path)
            await page.getByRole("heading", { name: shows, exact: true }).waitFor()
          })
          assert.deepStrictEqual(yield* accessibilityViolations(page), [], path)
        }
      }).pipe(Effect.scoped, Effect.orDie),
    120_000
  )
})
