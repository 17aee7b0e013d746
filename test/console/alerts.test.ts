import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { Page } from "playwright-core"
import type { ClientCalls } from "../../src/client/Client.ts"
import { StepId } from "../../src/domain/Ids.ts"
import { Deadlines } from "../../src/server/approvals/Deadlines.ts"
import { Countersign } from "../../src/testing/index.ts"
import {
  accessibilityViolations,
  Browser,
  goTo,
  openSignedIn,
  skipWithoutBrowser
} from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

const strip = (page: Page) => page.getByRole("region", { name: "Needs attention" })

/** The navigation's entry of a page. */
const entry = (page: Page, name: RegExp) =>
  page.getByRole("navigation", { name: "Main" }).getByRole("link", { name })

/** Claims a step in a session of its own. */
const claimStep = Effect.fnUntraced(function* (agent: ClientCalls, tool: string) {
  const { session_id } = yield* agent.sessions.create({})
  const { claim } = yield* agent.sessions.step({
    params: { id: session_id },
    payload: {
      step_id: StepId.make("charge-1"),
      tool,
      action_class: "write",
      arguments: { order: 4711 },
      claim: true
    }
  })
  return { session_id, claim_id: claim?.id ?? assert.fail("the step is claimed") }
})

/** Claims a step whose lease ends without an outcome. */
const claimUntilExpiry = Effect.fnUntraced(function* (agent: ClientCalls, tool: string) {
  const claimed = yield* claimStep(agent, tool)
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    UPDATE governed_steps
    SET claim_expires_at = claim_expires_at - interval '2 hours'
    WHERE session_id = ${claimed.session_id}
  `
  yield* (yield* Deadlines).runOnce
  return claimed
})

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Alerts", (it) => {
  const test = skipWithoutBrowser(it)

  test("a failing endpoint is seen on every page, beside Notifications and first in its list", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const sql = yield* SqlClient.SqlClient
      const admin = yield* client({}, "fire")
      const make = (description: string, events: "all" | "none") =>
        Effect.map(
          admin.notificationEndpoints.create({
            payload: {
              url: `http://127.0.0.1:9/${description}`,
              description,
              events: events === "all" ? ["approval.requested"] : ["approval.expiring"]
            }
          }),
          ({ endpoint }) => endpoint.id
        )
      yield* make("healthy", "none")
      const failing = yield* make("orders", "none")
      yield* sql`
        INSERT INTO delivery_destinations (org_id, destination_id, consecutive_failures, failing_since)
        SELECT org_id, endpoint_id, 12, now()
        FROM notification_endpoints
        WHERE endpoint_id = ${failing}
      `
      const { page, pageErrors } = yield* openSignedIn(yield* key({}, "fire"), "/rules")
      yield* Effect.promise(async () => {
        const alert = strip(page).getByRole("link", { name: /Webhook endpoint orders fails since/ })
        await alert.waitFor()
        await entry(page, /^Notifications 1 alert$/).click()
        await page.getByRole("heading", { name: "Notifications" }).waitFor()
        await page.getByRole("heading", { name: "orders" }).waitFor()
        const names = await page.locator(".endpoint-card h2").allTextContents()
        assert.deepStrictEqual(
          names.map((name) => (name.includes("orders") ? "orders" : "healthy")),
          ["orders", "healthy"]
        )
        assert.deepStrictEqual(await Effect.runPromise(accessibilityViolations(page)), [])
        await alert.click()
        await page.waitForURL(new RegExp(`/endpoints/${failing}$`))
        await page.goto("/console/overview")
        await page
          .getByRole("region", { name: "Webhook deliveries" })
          .getByRole("link", { name: "Endpoints that fail now 1" })
          .waitFor()
      })
      // It is gone without a reload, when the next change arrives.
      yield* sql`UPDATE delivery_destinations SET consecutive_failures = 0 WHERE destination_id = ${failing}`
      const agent = yield* client({ preset: "runtime" }, "fire")
      const { session_id } = yield* agent.sessions.create({})
      yield* agent.sessions.step({
        params: { id: session_id },
        payload: { step_id: StepId.make("one"), tool: "mail.send", action_class: "write" }
      })
      yield* Effect.promise(() => strip(page).waitFor({ state: "detached" }))
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("escalated and due approvals are named, and the list keeps its place under the strip", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "due")
      yield* admin.approvalRules.replace({
        payload: { rules: [{ effect: "require_approval", review_seconds: 600 }] }
      })
      const agent = yield* client({ preset: "runtime" }, "due")
      const { session_id } = yield* agent.sessions.create({})
      for (const step of ["one", "two"]) {
        yield* agent.sessions.step({
          params: { id: session_id },
          payload: { step_id: StepId.make(step), tool: "mail.send", action_class: "write" }
        })
      }
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE approvals SET stage = 'admin' WHERE session_id = ${session_id} AND step_id = 'one'`
      const { page, pageErrors } = yield* openSignedIn(yield* key({}, "due"), "/approvals")
      yield* Effect.promise(async () => {
        await strip(page)
          .getByRole("link", { name: /^2 approvals are due within 15 min, the next in/ })
          .waitFor()
        await strip(page).getByRole("link", { name: "1 approval escalated to admins" }).waitFor()
        await page.getByRole("listbox").getByRole("option").first().waitFor()
        const overflow = await page.evaluate(() => {
          const content = document.querySelector("#content")
          return content === null ? -1 : content.scrollHeight - content.clientHeight
        })
        assert.strictEqual(overflow, 0, "the list fits under the strip")
        assert.deepStrictEqual(await Effect.runPromise(accessibilityViolations(page)), [])
        await page.setViewportSize({ width: 390, height: 844 })
        assert.deepStrictEqual(await Effect.runPromise(accessibilityViolations(page)), [])
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("an execution with an unknown outcome leads to its page, where a person resolves it", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "executions")
      yield* admin.approvalRules.replace({ payload: { rules: [{ effect: "allow" }] } })
      const agent = yield* client({ preset: "runtime", name: "billing agent" }, "executions")
      yield* claimUntilExpiry(agent, "payments.charge")
      const { page, pageErrors } = yield* openSignedIn(
        yield* key({ preset: "reviewer", name: "Ada" }, "executions"),
        "/sessions"
      )
      yield* Effect.promise(async () => {
        await entry(page, /^Executions 1 alert$/).waitFor()
        await strip(page).getByRole("link", { name: "1 execution with an unknown outcome" }).click()
        await page.getByRole("link", { name: "payments.charge" }).click()
        await page.getByText("4711").waitFor()
        assert.isTrue(await page.getByRole("button", { name: "Resolve" }).isDisabled())
        await page.getByRole("radio", { name: /executed and succeeded/ }).check()
        await page.getByLabel("How you know").fill("The provider lists the charge.")
        assert.deepStrictEqual(await Effect.runPromise(accessibilityViolations(page)), [])
        await page.getByRole("button", { name: "Resolve" }).click()
        await page.getByText("Completed").waitFor()
        await page.getByText(/It was executed and succeeded, by Ada/).waitFor()
        await strip(page).waitFor({ state: "detached" })
        await page.getByRole("link", { name: "← All executions" }).click()
        await page.getByText("Nothing to resolve").waitFor()
        await page.getByRole("button", { name: "All", exact: true }).click()
        await page.getByRole("row", { name: /payments\.charge/ }).waitFor()
      })
      const [execution] = (yield* admin.executions.list({ query: {} })).executions
      assert.strictEqual(execution?.resolution?.comment, "The provider lists the charge.")
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("a page of executions that the own key claimed does not hide those of others", () =>
    Effect.gen(function* () {
      const { client, clientWith, key } = yield* Countersign
      const admin = yield* client({}, "own executions")
      yield* admin.approvalRules.replace({ payload: { rules: [{ effect: "allow" }] } })
      const agent = yield* client({ preset: "runtime", name: "billing agent" }, "own executions")
      const ownKey = yield* key({ name: "Ada" }, "own executions")
      yield* claimUntilExpiry(agent, "payments.others")
      yield* claimUntilExpiry(yield* clientWith(ownKey), "payments.own")
      const { page } = yield* openSignedIn(ownKey, "/sessions")
      yield* Effect.promise(async () => {
        // The first page has one execution: the newest, which is the key's own.
        await page.route(/\/v1\/executions\?(?!.*cursor)/, (route) =>
          route.continue({ url: `${route.request().url()}&limit=1` })
        )
        await goTo(page, "/executions")
        await page.getByText("Nothing to resolve so far").waitFor()
        await page.getByRole("button", { name: "Load more" }).click()
        await page.getByRole("link", { name: "payments.others" }).waitFor()
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("an execution offers nothing that the service refuses", () =>
    Effect.gen(function* () {
      const { client, clientWith, key } = yield* Countersign
      const admin = yield* client({}, "refused executions")
      yield* admin.approvalRules.replace({ payload: { rules: [{ effect: "allow" }] } })
      const agent = yield* client({ preset: "runtime", name: "billing agent" }, "refused executions")
      const ownKey = yield* key({ name: "Ada" }, "refused executions")
      const own = yield* claimUntilExpiry(yield* clientWith(ownKey), "payments.own")
      const closed = yield* claimStep(agent, "payments.closed")
      yield* agent.sessions.close({ params: { id: closed.session_id } })
      const late = yield* claimUntilExpiry(agent, "payments.late")
      const { page, pageErrors } = yield* openSignedIn(ownKey, "/executions")
      const retry = page.getByRole("radio", { name: /Execute it once more/ })
      yield* Effect.promise(async () => {
        await strip(page).getByRole("link", { name: "2 executions with an unknown outcome" }).waitFor()
        await page.getByRole("link", { name: "payments.late" }).waitFor()
        await page.getByRole("link", { name: "payments.closed" }).waitFor()
        assert.strictEqual(await page.getByRole("link", { name: "payments.own" }).count(), 0)
        await goTo(page, `/executions/${own.claim_id}`)
        await page.getByText("Your key claimed the step").waitFor()
        assert.strictEqual(await page.getByRole("button", { name: "Resolve" }).count(), 0)
        await goTo(page, `/executions/${closed.claim_id}`)
        await page.getByRole("button", { name: "Resolve" }).waitFor()
        assert.strictEqual(await retry.count(), 0)
        await goTo(page, `/executions/${late.claim_id}`)
        await retry.check()
      })
      yield* agent.sessions.reportOutcome({
        params: { id: late.session_id, step_id: StepId.make("charge-1") },
        payload: { status: "succeeded", claim_id: late.claim_id }
      })
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Resolve" }).click()
        await page.getByText("The outcome became known meanwhile").waitFor()
        await page.getByText("Completed").waitFor()
        await retry.waitFor({ state: "detached" })
        await strip(page).getByRole("link", { name: "1 execution with an unknown outcome" }).waitFor()
      })
      const narrow = yield* openSignedIn(
        yield* key({ scopes: ["approvals.read"] }, "refused executions"),
        `/executions/${late.claim_id}`
      )
      yield* Effect.promise(async () => {
        await narrow.page.getByText("4711").waitFor()
        assert.strictEqual(await narrow.page.getByRole("link", { name: "this session" }).count(), 0)
      })
      assert.deepStrictEqual([pageErrors, narrow.pageErrors], [[], []])
    }).pipe(Effect.scoped, Effect.orDie))
})
