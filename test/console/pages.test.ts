import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Page } from "playwright-core"
import { presetScopes } from "../../src/domain/Scope.ts"
import { Countersign } from "../../src/testing/index.ts"
import { accessibilityFaults, Browser, inBrowser, signedIn } from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

const navigation = (page: Page): Promise<ReadonlyArray<string>> =>
  page.getByRole("navigation").getByRole("link").allInnerTexts()

/** Every page that the navigation lists for an admin, with what shows that it is there. */
const pages = [
  ["/approvals", "Approvals"],
  ["/feedback", "Feedback"],
  ["/sessions", "Sessions"],
  ["/rules", "Rules"],
  ["/tasks", "Tasks"],
  ["/endpoints", "Notifications"],
  ["/telemetry", "Telemetry"],
  ["/keys", "Keys"],
  ["/audit", "Audit log"]
] as const

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })(
  "the console in a browser",
  (it) => {
    const test = inBrowser(it)

    test(
      "shows each key the pages that its scopes open, and no other",
      () =>
        Effect.gen(function* () {
          const admin = yield* signedIn({ preset: "admin" }, "/approvals")
          assert.sameMembers(
            [...(yield* Effect.promise(() => navigation(admin.page)))],
            pages.map(([, title]) => title)
          )
          const reviewer = yield* signedIn({ preset: "reviewer" }, "/keys")
          assert.sameMembers(
            [...(yield* Effect.promise(() => navigation(reviewer.page)))],
            ["Approvals", "Feedback", "Sessions", "Rules", "Tasks"]
          )
          yield* Effect.promise(async () => {
            await reviewer.page.getByText("This key does not open the page").waitFor()
            await reviewer.page.goto("/console/rules")
            await reviewer.page.getByText("What would this step get?").waitFor()
            assert.strictEqual(await reviewer.page.getByRole("button", { name: /rule/i }).count(), 0)
          })
          assert.notInclude(presetScopes("reviewer"), "rules.write")
        }).pipe(Effect.scoped, Effect.orDie),
      60_000
    )

    test(
      "holds to WCAG 2.2 AA on every page, empty and with something to show",
      () =>
        Effect.gen(function* () {
          const { client } = yield* Countersign
          const admin = yield* client()
          yield* admin.approval_rules.replace({ payload: { rules: [{ tool: "search.*", effect: "allow" }] } })
          yield* admin.sessions.create({ payload: { metadata: { ticket: "4711" } } })
          const { faults, page } = yield* signedIn({ preset: "admin" }, "/approvals")
          for (const [path, title] of pages) {
            yield* Effect.promise(async () => {
              await page.goto(`/console${path}`)
              await page.getByRole("heading", { level: 1, name: title }).waitFor()
            })
            assert.deepStrictEqual(yield* accessibilityFaults(page), [], path)
          }
          assert.deepStrictEqual(faults, [])
        }).pipe(Effect.scoped, Effect.orDie),
      120_000
    )

    test(
      "a rule is moved by the keyboard, tried, and saved over nobody's without asking",
      () =>
        Effect.gen(function* () {
          const { client, key } = yield* Countersign
          const admin = yield* client({}, "rules")
          yield* admin.approval_rules.replace({
            payload: {
              rules: [
                { tool: "*", effect: "reject", reason: "Nothing" },
                { tool: "search.*", effect: "allow", reason: "Reading" }
              ]
            }
          })
          const { page } = yield* signedIn(yield* key({}, "rules"), "/rules")
          yield* Effect.promise(async () => {
            await page.getByLabel("Tool").fill("search.products")
            await page.getByText("by rule 1").waitFor()
            await page.getByRole("button", { name: "Move rule 2 up" }).press("Enter")
            await page.getByRole("status").getByText("Reading").waitFor()
          })
          yield* admin.approval_rules.replace({ payload: { rules: [] } })
          yield* Effect.promise(async () => {
            await page.getByRole("button", { name: "Save the rules" }).click()
            await page.getByText("Somebody else saved rules while you edited").waitFor()
            await page.getByRole("button", { name: "Save mine over theirs" }).click()
            await page.getByText("The rules are saved").waitFor()
          })
          const { rules } = yield* admin.approval_rules.list()
          assert.deepStrictEqual(
            rules.map(({ tool }) => tool),
            ["search.*", "*"]
          )
        }).pipe(Effect.scoped, Effect.orDie),
      60_000
    )
  }
)
