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

/** A page as it is tried: where it is, what shows that it is there, and what opens a dialog or a part over it. */
interface Tried {
  readonly path: string
  readonly shows: string | RegExp
  readonly open?: ReadonlyArray<(page: Page) => Promise<unknown>>
}

const press = (name: string | RegExp) => (page: Page) => page.getByRole("button", { name }).first().click()

type Places = Effect.Success<ReturnType<typeof seedConsoleOrg>>

/** What reviewers and agents have to do with, each page with what hangs on it. */
const review = (at: Places): ReadonlyArray<Tried> => [
  { path: "/approvals", shows: /Waiting 1/, open: [press("Closed")] },
  {
    path: `/approvals/${at.approval_id}`,
    shows: "Arguments",
    open: [press(/^Approve/), press("Not yet"), press(/^Reject/)]
  },
  { path: `/approvals/${at.decided_id}`, shows: /The agent is answered/ },
  { path: "/feedback", shows: "✕ wrong" },
  { path: `/feedback/${at.feedback_id}`, shows: "Protected values were removed", open: [press(/^Reject/)] },
  { path: `/promotion/${at.task_id}`, shows: "examples added" },
  { path: "/sessions", shows: /ticket: 4711/ },
  { path: `/sessions/${at.session_id}`, shows: "1-look-up", open: [press("Close the session")] },
  { path: "/rules", shows: "Reading harms nobody", open: [press("New rule")] }
]

/** What is answered by, and what is set. */
const settings = (at: Places): ReadonlyArray<Tried> => [
  { path: "/tasks", shows: "newest version" },
  { path: "/tasks/new", shows: "The shape of inputs", open: [(page) => page.getByLabel(/^a model/).check()] },
  { path: `/tasks/${at.task_id}`, shows: "At work" },
  { path: `/tasks/${at.task_id}/edit`, shows: "Save the working copy" },
  { path: `/tasks/${at.task_id}/datasets`, shows: "Version 2", open: [press("Add examples")] },
  { path: `/tasks/${at.task_id}/comparisons`, shows: "completed" },
  { path: `/tasks/${at.task_id}/releases`, shows: "it is the first" },
  { path: `/datasets/${at.dataset_id}`, shows: "1 added", open: [press("Examples")] },
  { path: `/comparisons/${at.comparison_id}`, shows: "Cost and time", open: [press("Look at it")] },
  { path: "/endpoints", shows: "http://127.0.0.1:9", open: [press("New endpoint")] },
  {
    path: `/endpoints/${at.endpoint_id}`,
    shows: "Deliveries",
    open: [press("Attempts"), press("Replay a window")]
  },
  { path: "/telemetry", shows: "spans waiting", open: [press("Remove")] },
  { path: "/keys", shows: "An old one", open: [press("New key")] },
  { path: "/audit", shows: "Grace Hopper", open: [(page) => page.getByText("Details").first().click()] },
  { path: "/no/such/page", shows: "There is no such page" }
]

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })(
  "every page of the console",
  (it) => {
    const test = skipWithoutBrowser(it)

    for (const [name, pagesOf] of [
      ["of reviews and agents", review],
      ["of answers and settings", settings]
    ] as const) {
      test(
        `${name}: holds to WCAG 2.2 AA in light and dark, with its dialogs and whatever is in it, and never runs or overflows`,
        () =>
          Effect.gen(function* () {
            const { key } = yield* Countersign
            const at = yield* seedConsoleOrg(name, hostileTexts)
            const { faults, page } = yield* openSignedIn(yield* key({ name: "Grace" }, name), "/approvals")
            const judge = Effect.fnUntraced(function* (path: string) {
              yield* Effect.promise(() => page.emulateMedia({ colorScheme: "light" }))
              assert.deepStrictEqual(yield* accessibilityViolations(page), [], path)
              yield* Effect.promise(() => page.emulateMedia({ colorScheme: "dark" }))
              assert.deepStrictEqual(yield* accessibilityViolations(page, "contrast"), [], `${path}, dark`)
            })
            for (const { open = [], path, shows } of pagesOf(at)) {
              yield* Effect.promise(async () => {
                await goTo(page, path)
                await page.locator("#content").getByText(shows).first().waitFor()
              })
              yield* judge(path)
              for (const part of open) {
                yield* Effect.promise(() => part(page))
                yield* judge(`${path}, with a part open`)
              }
              yield* Effect.promise(async () => {
                await page.setViewportSize({ width: 390, height: 844 })
                assert.strictEqual(await horizontalOverflow(page), 0, `${path} on a phone`)
              })
              // What is decided on a phone.
              if (path.startsWith("/approvals")) yield* judge(`${path} on a phone`)
              yield* Effect.promise(async () => {
                await page.setViewportSize({ width: 1280, height: 720 })
                assert.strictEqual(
                  await page.locator("#injected, img, iframe, svg[onload], [onerror], main script").count(),
                  0,
                  path
                )
              })
            }
            assert.deepStrictEqual(faults, [])
          }).pipe(Effect.scoped, Effect.orDie),
        240_000
      )
    }

    test(
      "holds to it with nothing in it yet, and says what would be there",
      () =>
        Effect.gen(function* () {
          const { key } = yield* Countersign
          const { page } = yield* openSignedIn(yield* key({}, "empty"), "/approvals")
          for (const [path, shows] of [
            ["/approvals", "Nothing waits for you"],
            ["/feedback", "Nothing to review"],
            ["/sessions", "No agent has asked for anything yet"],
            ["/rules", "No rule yet"],
            ["/tasks", "No task yet"],
            ["/endpoints", "No endpoint yet"],
            ["/telemetry", "No collector is set"]
          ] as const) {
            yield* Effect.promise(async () => {
              await goTo(page, path)
              await page.getByText(shows).waitFor()
            })
            assert.deepStrictEqual(yield* accessibilityViolations(page), [], path)
          }
        }).pipe(Effect.scoped, Effect.orDie),
      60_000
    )
  }
)
