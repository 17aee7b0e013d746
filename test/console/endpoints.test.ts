import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { createServer, type IncomingHttpHeaders } from "node:http"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { verify } from "../../src/webhook/index.ts"
import {
  Browser,
  holdRequest,
  horizontalOverflow,
  skipWithoutBrowser,
  openSignedIn
} from "../support/browser.ts"
import { eventually } from "../support/eventually.ts"
import { service } from "../support/service.ts"
import { listenOnFreePort } from "../support/listenOnFreePort.ts"

// One attempt per delivery: a failed attempt fails the delivery immediately, so that it can be replayed.
const environment = Layer.provideMerge(
  Browser.layer,
  service({
    environment: { COUNTERSIGN_NOTIFY_RETRY_SECONDS: "0", COUNTERSIGN_NOTIFY_COOLDOWN_SECONDS: "300" }
  })
)

/** A request to the receiver. */
interface Received {
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** A webhook receiver on loopback that answers with `state.status`. */
const receiver = Effect.acquireRelease(
  Effect.promise(async () => {
    const received: Array<Received> = []
    let waiting: (() => void) | undefined
    const state = { status: 200 }
    const server = createServer((request, response) => {
      let body = ""
      request.setEncoding("utf8").on("data", (more: string) => (body += more))
      request.on("end", () => {
        received.push({ headers: request.headers, body })
        response.writeHead(state.status).end()
        waiting?.()
      })
    })
    const port = await listenOnFreePort(server)
    /** Resolves once this many requests have arrived. */
    const count = async (wanted: number) => {
      while (received.length < wanted) await new Promise<void>((resolve) => (waiting = resolve))
    }
    return { url: `http://127.0.0.1:${port}/hook`, received, state, count, server }
  }),
  ({ server }) => Effect.sync(() => server.close())
)

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Webhook endpoints pages", (it) => {
  const test = skipWithoutBrowser(it)

  test(
    "an admin creates an endpoint, copies its secret, and replays a failed delivery",
    () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const hook = yield* receiver
        const { pageErrors, page } = yield* openSignedIn({ preset: "admin", name: "Grace" }, "/endpoints")
        const secret = yield* Effect.promise(async () => {
          await page.getByRole("button", { name: "New endpoint" }).click()
          const form = page.getByRole("dialog", { name: "New endpoint" })
          await page.getByLabel("URL").fill("http://intranet.example.com/")
          await page.getByLabel("Description").fill("Orders team")
          await page.getByRole("button", { name: "Create endpoint" }).click()
          // The error is at its field, and only there.
          await form.getByRole("alert").waitFor()
          const message = await form.locator(".field-error").innerText()
          assert.strictEqual(await form.getByText(message).count(), 1)
          await page.getByLabel("URL").fill(hook.url)
          await page.getByRole("button", { name: "Create endpoint" }).click()
          const shown = page.getByRole("dialog", { name: "Signing secret" })
          const text = await shown.locator("code").innerText()
          await shown.getByRole("button", { name: "I have saved it" }).click()
          await page.getByText("No deliveries yet").waitFor()
          await page.getByRole("heading", { name: /Orders team.*http:\/\/127\.0\.0\.1/ }).waitFor()
          assert.notInclude(await page.content(), text)
          return text
        })
        // The event of a real approval is signed with the secret that the page showed.
        const agent = yield* client({ preset: "runtime" })
        const { session_id } = yield* agent.sessions.create({})
        hook.state.status = 500
        yield* agent.sessions.step({
          params: { id: session_id },
          payload: { step_id: StepId.make("one"), tool: "mail.send", action_class: "write" }
        })
        yield* Effect.promise(async () => {
          await hook.count(1)
          const row = page.getByRole("listitem").filter({ hasText: "approval.requested" })
          await row.getByText("failed").waitFor()
          await row.getByRole("link", { name: "approval.requested" }).click()
          await page.getByText("HTTP 500").first().waitFor()
          hook.state.status = 200
          await page.getByRole("button", { name: "Replay" }).click()
          await hook.count(2)
          const attempts = page.getByRole("region", { name: "Attempts" }).getByRole("listitem")
          await attempts.filter({ hasText: "HTTP 200" }).waitFor()
          assert.strictEqual(await attempts.count(), 2)
          // What was sent, and how a receiver verifies it.
          await page.getByRole("group", { name: "Event" }).getByText("mail.send").count()
          await page.getByRole("region", { name: "Headers" }).getByText("webhook-id").waitFor()
          await page.getByRole("button", { name: "Python" }).click()
          await page.getByText("def is_signed").waitFor()
        })
        const [first, second] = hook.received
        assert.strictEqual(first?.body, second?.body)
        const checked = yield* Effect.promise(() => verify(second!.body, second!.headers, secret))
        assert.strictEqual(checked.ok && checked.event.type, "approval.requested")
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie),
    120_000
  )

  test(
    "all failed deliveries of a period are replayed, and the delivery health shows the attempts",
    () =>
      Effect.gen(function* () {
        const { client, key } = yield* Countersign
        const hook = yield* receiver
        hook.state.status = 503
        const admin = yield* client({}, "window")
        const { endpoint } = yield* admin.notificationEndpoints.create({ payload: { url: hook.url } })
        const agent = yield* client({ preset: "runtime" }, "window")
        const { session_id } = yield* agent.sessions.create({})
        const { page } = yield* openSignedIn(yield* key({}, "window"), `/endpoints/${endpoint.id}`)
        for (const step of ["one", "two", "three"]) {
          yield* agent.sessions.step({
            params: { id: session_id },
            payload: { step_id: StepId.make(step), tool: "mail.send", action_class: "write" }
          })
        }
        const rows = page.getByRole("region", { name: "Deliveries" }).getByRole("listitem")
        yield* Effect.promise(async () => {
          await hook.count(3)
          await rows.getByText("failed").nth(2).waitFor()
          await page.getByText(/Failing since .*HTTP 503/).waitFor()
          hook.state.status = 200
          await page.getByRole("button", { name: "Replay failed deliveries" }).click()
          await page.getByRole("dialog").getByLabel("From").fill("2000-01-01T00:00")
          await page.getByRole("dialog").getByLabel("Until").fill("2000-01-02T00:00")
          await page.getByText("No delivery of this period has failed").waitFor()
          assert.isTrue(await page.getByRole("button", { name: "Replay", exact: true }).last().isDisabled())
          // The period survives a reload.
          await page.reload()
          await page.getByText("Your unsaved changes are back").waitFor()
          assert.strictEqual(
            await page.getByRole("dialog").getByLabel("Until").inputValue(),
            "2000-01-02T00:00"
          )
          await page.getByRole("button", { name: "Discard changes" }).click()
          await page.getByText("3 failed deliveries of this period").waitFor()
          await page.getByRole("dialog").getByRole("button", { name: "Replay 3" }).click()
          await page.getByText("Deliveries queued: 3").waitFor()
          await hook.count(6)
          await rows.getByText("delivered").nth(2).waitFor()
          await page.getByText("50 % of 6 succeeded").waitFor()
        })
        const ids = hook.received.map(({ headers }) => headers["webhook-id"])
        assert.deepStrictEqual(ids.slice(0, 3).toSorted(), ids.slice(3).toSorted())
      }).pipe(Effect.scoped, Effect.orDie),
    120_000
  )

  test(
    "an endpoint with consecutive failures cools down, and the pages show until when",
    () =>
      Effect.gen(function* () {
        const { client, key } = yield* Countersign
        const hook = yield* receiver
        hook.state.status = 503
        const admin = yield* client({}, "cooling")
        const { endpoint } = yield* admin.notificationEndpoints.create({ payload: { url: hook.url } })
        const agent = yield* client({ preset: "runtime" }, "cooling")
        const { session_id } = yield* agent.sessions.create({})
        for (let step = 0; step < 5; step++) {
          yield* agent.sessions.step({
            params: { id: session_id },
            payload: { step_id: StepId.make(`${step}`), tool: "mail.send", action_class: "write" }
          })
        }
        yield* eventually(
          admin.notificationEndpoints.list(),
          ({ endpoints }) => (endpoints[0]?.cooldown_until ?? null) !== null
        )
        const { pageErrors, page } = yield* openSignedIn(
          yield* key({}, "cooling"),
          `/endpoints/${endpoint.id}`
        )
        yield* Effect.promise(async () => {
          await page.getByText("Cooling down after 5 consecutive failures").waitFor()
        })
        // A delivery that waits for the end of the cooldown is sent at once.
        yield* agent.sessions.step({
          params: { id: session_id },
          payload: { step_id: StepId.make("waits"), tool: "mail.send", action_class: "write" }
        })
        yield* Effect.promise(async () => {
          await page.getByRole("button", { name: "Retry 1 waiting now" }).click()
          await hook.count(6)
          await page.getByText("One waiting delivery is sent now").waitFor()
        })
        const { entries } = yield* admin.auditLog.list({ query: { action: "endpoint.retried" } })
        assert.strictEqual(entries[0]?.target_id, endpoint.id)
        yield* Effect.promise(async () => {
          await page.goto(`${new URL(page.url()).origin}/console/endpoints`)
          await page.getByText(/Cooling down, \d+ min/).waitFor()
        })
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie),
    120_000
  )

  test(
    "the log of all deliveries is filtered in its address, and failed deliveries are selected and replayed together",
    () =>
      Effect.gen(function* () {
        const { client, key } = yield* Countersign
        const failing = yield* receiver
        const working = yield* receiver
        failing.state.status = 503
        const admin = yield* client({}, "log")
        yield* admin.notificationEndpoints.create({
          payload: { url: failing.url, description: "Failing team" }
        })
        yield* admin.notificationEndpoints.create({
          payload: { url: working.url, description: "Working team" }
        })
        const agent = yield* client({ preset: "runtime" }, "log")
        const { session_id } = yield* agent.sessions.create({})
        for (let step = 0; step < 4; step++) {
          yield* agent.sessions.step({
            params: { id: session_id },
            payload: { step_id: StepId.make(`${step}`), tool: "mail.send", action_class: "write" }
          })
        }
        const { pageErrors, page } = yield* openSignedIn(yield* key({}, "log"), "/deliveries")
        const rows = page.getByRole("region", { name: "All deliveries" }).getByRole("listitem")
        yield* Effect.promise(async () => {
          await Promise.all([failing.count(4), working.count(4)])
          await rows.nth(7).waitFor()
          await rows.filter({ hasText: "Failing team" }).getByText("HTTP 503").nth(3).waitFor()
          await page.getByRole("button", { name: "Failed", exact: true }).click()
          await page.waitForFunction(() => location.search === "?status=failed")
          await page.getByLabel("Response").selectOption("503")
          await page.waitForFunction(() => location.search === "?status=failed&code=503")
          await rows.nth(3).waitFor()
          assert.strictEqual(await rows.count(), 4)
          // A link restores the filters, and Back undoes the last one.
          await page.reload()
          await rows.nth(3).waitFor()
          assert.strictEqual(await page.getByLabel("Response").inputValue(), "503")
          await page.goBack()
          await page.waitForFunction(() => location.search === "?status=failed")
          await page.getByLabel("Event").selectOption("approval.expired")
          await page.getByText("No deliveries match").waitFor()
          await page.getByLabel("Event").selectOption("")
          await rows.nth(3).waitFor()
          // One by the keyboard, a range by Shift, and the others by the filter.
          await rows.nth(0).getByRole("link").focus()
          await page.keyboard.press("x")
          await page.getByText("1 selected").waitFor()
          await rows
            .nth(2)
            .getByRole("checkbox")
            .click({ modifiers: ["Shift"] })
          await page.getByText("3 selected").waitFor()
          await page.keyboard.press("Escape")
          await page.getByRole("button", { name: "Select all failed" }).click()
          await page.getByText("4 selected").waitFor()
          failing.state.status = 200
          await page.getByRole("button", { name: "Replay", exact: true }).click()
          await page.getByRole("dialog").getByRole("button", { name: "Replay 4" }).click()
          await page.getByRole("dialog").getByText("4 queued").waitFor()
          await failing.count(8)
          await page.getByRole("button", { name: "Close" }).click()
          await page.getByText("No deliveries match").waitFor()
          assert.strictEqual(await horizontalOverflow(page), 0)
        })
        // One audit entry for all of them.
        const { entries } = yield* admin.auditLog.list({ query: { action: "endpoint.replayed" } })
        assert.deepStrictEqual(
          entries.map(({ detail }) => detail),
          [{ selected: 4, queued: 4, skipped: 0 }]
        )
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie),
    120_000
  )

  test(
    "new deliveries move nothing in a log that is scrolled down, and leave no gap in it",
    () =>
      Effect.gen(function* () {
        const { client, key } = yield* Countersign
        const hook = yield* receiver
        const admin = yield* client({}, "scrolled")
        const { endpoint } = yield* admin.notificationEndpoints.create({ payload: { url: hook.url } })
        const send = admin.notificationEndpoints.test({ params: { id: endpoint.id } })
        yield* Effect.repeat(send, { times: 5 })
        const { page } = yield* openSignedIn(yield* key({}, "scrolled"), "/deliveries", {
          viewport: { width: 1280, height: 420 }
        })
        const rows = page.getByRole("region", { name: "All deliveries" }).getByRole("listitem")
        let isCut = false
        yield* Effect.promise(async () => {
          await page.route("**/console/delivery-log", async (route) => {
            const response = await route.fetch()
            const body = await response.json()
            const [newest] = body.deliveries
            const cut = isCut ? { deliveries: [newest], next_cursor: newest.id } : {}
            await route.fulfill({ response, json: { ...body, ...cut } })
          })
          await rows.nth(5).waitFor()
          await page.locator("#content").evaluate((content) => content.scrollTo(0, content.scrollHeight))
        })
        yield* send
        yield* Effect.promise(async () => {
          await page.getByRole("button", { name: "Show 1 new delivery" }).click()
          await rows.nth(6).waitFor()
          await page.locator("#content").evaluate((content) => content.scrollTo(0, 0))
        })
        // From now on the newest page has one delivery, so that it does not reach those that are shown.
        isCut = true
        yield* send
        yield* send
        yield* Effect.promise(async () => {
          await page.getByRole("button", { name: "Show new deliveries" }).waitFor()
          assert.strictEqual(await rows.count(), 7)
          await page.unrouteAll({ behavior: "ignoreErrors" })
        })
      }).pipe(Effect.scoped, Effect.orDie),
    120_000
  )

  test(
    "a 410 response disables an endpoint, and its page says so, when, and by which delivery",
    () =>
      Effect.gen(function* () {
        const { client, key } = yield* Countersign
        const hook = yield* receiver
        hook.state.status = 410
        const admin = yield* client({}, "gone")
        const { endpoint } = yield* admin.notificationEndpoints.create({
          payload: { url: hook.url, description: "Old shop" }
        })
        const { id } = yield* admin.notificationEndpoints.test({ params: { id: endpoint.id } })
        yield* eventually(admin.notificationEndpoints.list(), ({ endpoints }) => !endpoints[0]!.active)
        const { pageErrors, page } = yield* openSignedIn(yield* key({}, "gone"), `/endpoints/${endpoint.id}`)
        yield* Effect.promise(async () => {
          await page.getByText("Disabled by a 410 Gone response on").waitFor()
          await page.locator(".notice").getByText(id).waitFor()
          await page.locator(".notice").getByRole("link", { name: id }).click()
          // The status is said once.
          await page
            .getByRole("region", { name: "Attempts" })
            .getByText("HTTP 410: the endpoint was disabled", { exact: true })
            .waitFor()
          await page.goto(`${new URL(page.url()).origin}/console/endpoints`)
          await page.getByRole("link", { name: /Old shop/ }).waitFor()
        })
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie),
    120_000
  )

  test(
    "an endpoint is tested, its events edited, its secret rotated, and it is disabled, enabled and deleted",
    () =>
      Effect.gen(function* () {
        const { client, key } = yield* Countersign
        const hook = yield* receiver
        const admin = yield* client({}, "settings")
        const { endpoint, secret } = yield* admin.notificationEndpoints.create({
          payload: { url: hook.url }
        })
        const { pageErrors, page } = yield* openSignedIn(
          yield* key({}, "settings"),
          `/endpoints/${endpoint.id}`
        )
        const rotated = yield* Effect.promise(async () => {
          await page.getByRole("button", { name: "Edit" }).click()
          await page.getByLabel("Description").fill("Billing, staging")
          for (const event of ["requested", "expiring", "escalated", "approved", "rejected"])
            await page.getByLabel(`approval.${event}`).uncheck()
          await page.getByRole("button", { name: "Save" }).click()
          await page.getByRole("dialog").waitFor({ state: "detached" })
          await page.getByText("More", { exact: true }).click()
          await page.getByRole("button", { name: "Rotate secret" }).click()
          await page.getByRole("button", { name: "Rotate", exact: true }).click()
          const shown = page.getByRole("dialog", { name: "New signing secret" })
          const text = await shown.locator("code").innerText()
          await shown.getByRole("button", { name: "I have saved it" }).click()
          await page.getByRole("button", { name: "Send test event" }).click()
          await hook.count(1)
          await page.getByRole("listitem").getByText("delivered").waitFor()
          await page.getByRole("button", { name: "Disable" }).click()
          await page.getByRole("dialog").getByText("lost for it").waitFor()
          const disabling = await holdRequest(page, `**/notification-endpoints/${endpoint.id}`)
          await page.getByRole("dialog").getByRole("button", { name: "Disable" }).click()
          await disabling.asked
          // A dialog that closed now would hide a failure, and look as if nothing were done.
          await page.keyboard.press("Escape")
          await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).press("Enter")
          assert.strictEqual(await page.getByRole("dialog").count(), 1)
          disabling.answer()
          await page.getByText(/^Disabled by (?!a 410)/).waitFor()
          await page.getByText("No events are delivered").waitFor()
          // They would fail, because the endpoint is disabled.
          assert.strictEqual(await page.getByRole("button", { name: /^(Send test event|Replay)/ }).count(), 0)
          await page.getByRole("button", { name: "Enable" }).click()
          await page.getByText("No events are delivered").waitFor({ state: "detached" })
          return text
        })
        const [sent] = hook.received
        for (const one of [secret, rotated]) {
          assert.isTrue((yield* Effect.promise(() => verify(sent!.body, sent!.headers, one))).ok)
        }
        const { endpoints } = yield* admin.notificationEndpoints.list()
        assert.deepStrictEqual(endpoints[0]?.events, ["approval.expired"])
        assert.strictEqual(endpoints[0]?.description, "Billing, staging")
        yield* Effect.promise(async () => {
          await page.getByRole("button", { name: "Delete" }).click()
          await page.getByRole("button", { name: "Cancel" }).click()
          await page.getByRole("button", { name: "Delete" }).click()
          await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click()
          await page.getByText("No webhook endpoints").waitFor()
        })
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie),
    120_000
  )
})
