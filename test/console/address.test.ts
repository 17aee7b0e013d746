import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import {
  accessibilityViolations,
  Browser,
  goTo,
  openSignedIn,
  skipWithoutBrowser,
  toggleAuditAction
} from "../support/browser.ts"
import { seedConsoleOrg } from "../support/seedConsoleOrg.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("The address of a page", (it) => {
  const test = skipWithoutBrowser(it)

  test("Back, Forward, a reload and a link restore the filter of the sessions", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const agent = yield* client({ preset: "runtime" }, "filters")
      const closed = yield* agent.sessions.create({ payload: { metadata: { ticket: "SUP-1" } } })
      yield* agent.sessions.close({ params: { id: closed.session_id } })
      yield* agent.sessions.create({ payload: { metadata: { ticket: "SUP-2" } } })
      const { page, pageErrors } = yield* openSignedIn(yield* key({}, "filters"), "/sessions")
      const row = (ticket: string) => page.getByRole("row").filter({ hasText: ticket })
      const isPressed = (name: string) =>
        page.getByRole("button", { name, exact: true, pressed: true }).waitFor()
      yield* Effect.promise(async () => {
        await row("SUP-1").waitFor()
        await page.getByRole("button", { name: "Open", exact: true }).click()
        await row("SUP-1").waitFor({ state: "detached" })
        await row("SUP-2").waitFor()
        await page.getByRole("button", { name: "Closed", exact: true }).click()
        await row("SUP-1").waitFor()
        assert.strictEqual(new URL(page.url()).search, "?status=closed")
        await page.reload()
        await isPressed("Closed")
        await row("SUP-1").waitFor()
        assert.strictEqual(await row("SUP-2").count(), 0)
        await page.goBack()
        await isPressed("Open")
        await row("SUP-2").waitFor()
        await page.goBack()
        await isPressed("All")
        await page.goForward()
        await isPressed("Open")
        // A link that somebody made up.
        await page.goto("/console/sessions?status=%3Cscript%3E&status=open&text=%00")
        await isPressed("All")
        await row("SUP-1").waitFor()
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("sessions and audit entries are searched for words and sorted, and an entry opens", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const agent = yield* client({ preset: "runtime", name: "mailer" }, "words")
      for (const ticket of ["SUP-1", "SUP-2", "OPS-1"]) {
        yield* agent.sessions.create({ payload: { metadata: { ticket } } })
      }
      const admin = yield* client({ name: "Grace" }, "words")
      yield* admin.apiKeys.create({ payload: { name: "payments agent", preset: "runtime" } })
      const { page, pageErrors } = yield* openSignedIn(yield* key({}, "words"), "/sessions")
      const tickets = (...expected: ReadonlyArray<string>) =>
        page.waitForFunction(
          (all) =>
            [...document.querySelectorAll<HTMLElement>("tbody .fact")]
              .map((fact) => fact.innerText.replace("ticket: ", ""))
              .join() === all,
          expected.join()
        )
      yield* Effect.promise(async () => {
        await tickets("OPS-1", "SUP-2", "SUP-1")
        await page.getByLabel("Search sessions").fill("sup- MAILER")
        await tickets("SUP-2", "SUP-1")
        await page.getByLabel("Sort by").selectOption("oldest")
        await tickets("SUP-1", "SUP-2")
        await page.reload()
        await tickets("SUP-1", "SUP-2")
        await page.getByLabel("Search sessions").fill("no such thing")
        await page.getByText("No matching sessions").waitFor()

        await page.goto("/console/audit?text=payments")
        const entry = page.getByRole("listitem").filter({ hasText: "created an API key" })
        await entry.getByRole("link", { name: "payments agent" }).waitFor()
        assert.strictEqual(await entry.count(), 1)
        const height = (await entry.boundingBox())?.height ?? 0
        assert.isBelow(height, 56)
        await entry.getByRole("button", { name: /^Details/ }).click()
        await entry.getByText(/^req_/).waitFor()
        await entry.getByRole("link", { name: /^key_/ }).click()
        await page.getByRole("region", { name: "Selected key" }).getByText("payments agent").waitFor()
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("the audit log is filtered by action, key, record and day, all in the address", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const at = yield* seedConsoleOrg("audited")
      const grace = yield* client({ name: "Grace" }, "audited")
      const { key: made } = yield* grace.apiKeys.create({
        payload: { name: "made by Grace", preset: "reviewer" }
      })
      const { page, pageErrors } = yield* openSignedIn(yield* key({}, "audited"), "/audit")
      const entries = page.getByRole("main").getByRole("listitem")
      const search = () => new URL(page.url()).searchParams
      yield* Effect.promise(async () => {
        await entries.first().waitFor()
        await toggleAuditAction(page, "created an API key")
        await entries.filter({ hasText: "created a task" }).first().waitFor({ state: "detached" })
        await page.getByRole("button", { name: "Grace" }).first().click()
        await page.waitForFunction(() => document.querySelectorAll("main li.entry").length === 1)
        assert.include(await entries.first().innerText(), made.name)
        await page.reload()
        await page.waitForFunction(() => document.querySelectorAll("main li.entry").length === 1)
        assert.strictEqual(search().get("action"), "key.created")
        await page.getByRole("combobox", { name: "Person" }).selectOption("")
        await page.waitForFunction(() => document.querySelectorAll("main li.entry").length > 1)
        await toggleAuditAction(page, "created an API key")
        // Typing replaces the entry of the history: one step back leaves it.
        const before = await page.evaluate(() => history.length)
        await page.getByLabel("ID of a record").pressSequentially(at.task_id, { delay: 1 })
        await entries.filter({ hasText: "created a task" }).first().waitFor()
        await page.waitForFunction(
          (task) =>
            [...document.querySelectorAll("main li.entry")].every(
              (one) => one.querySelector(`a[href$="/tasks/${task}"]`) !== null
            ),
          at.task_id
        )
        assert.strictEqual(search().get("target"), at.task_id)
        assert.strictEqual(await page.evaluate(() => history.length), before)
        await page.getByLabel("ID of a record").fill("")
        await page.getByLabel("Until").fill("2020-01-31")
        await page.getByText("No matching entries").waitFor()
        await page.goBack()
        await entries.first().waitFor()
        await page.goto("/console/audit?from=2020-99-99&actor=key_1&action=nothing")
        await entries.first().waitFor()
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("the title of a session's tab names its metadata, and shows hidden characters", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const agent = yield* client({ preset: "runtime" }, "titles")
      const { session_id } = yield* agent.sessions.create({
        payload: { metadata: { ticket: "SUP-9001", customer: "Maria\u202e\nWeber" } }
      })
      const { page } = yield* openSignedIn(yield* key({}, "titles"), `/sessions/${session_id}`)
      yield* Effect.promise(async () => {
        await page.waitForFunction(() => document.title === "SUP-9001 · MariaU+202E Weber · Countersign")
        await page.getByRole("link", { name: "All sessions" }).click()
        await page.waitForFunction(() => document.title === "Sessions · Countersign")
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("Back and a reload return to where a list was scrolled to, with as many pages", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const agent = yield* client({ preset: "runtime" }, "scrolled")
      yield* Effect.forEach(
        Array.from({ length: 120 }, (_, number) => number),
        (number) => agent.sessions.create({ payload: { metadata: { ticket: `SUP-${number}` } } }),
        { concurrency: 8 }
      )
      const { page, pageErrors } = yield* openSignedIn(yield* key({}, "scrolled"), "/sessions")
      const isAt = (wanted: number) =>
        page.waitForFunction(
          (at) => Math.abs((document.querySelector("#content")?.scrollTop ?? -1) - at) < 3,
          wanted
        )
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Load more" }).click()
        await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 100)
        // The console has seen the event when it comes to the element itself.
        const before = await page.evaluate(
          () =>
            new Promise<number>((done) => {
              const content = document.querySelector("#content")
              content?.addEventListener("scroll", () => done(content.scrollTop), { once: true })
              content?.scrollTo(0, 4_000)
            })
        )
        assert.isAbove(before, 2_500)
        // A link that is on the screen.
        await page.evaluate((at) => {
          const link = [...document.querySelectorAll<HTMLElement>("tbody a")].find(
            (one) => one.getBoundingClientRect().top > 200
          )
          link?.click()
          return at
        }, before)
        await page.getByText("No steps yet").waitFor()
        // The new page starts at its start.
        await isAt(0)
        await page.goBack()
        await isAt(before)
        await page.reload()
        await isAt(before)
        await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 100)
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("lists follow by themselves at their start, and say how much is new further down", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const agent = yield* client({ preset: "runtime" }, "follows")
      const make = (ticket: string) => agent.sessions.create({ payload: { metadata: { ticket } } })
      yield* Effect.forEach(
        Array.from({ length: 60 }, (_, number) => number),
        (number) => make(`old-${number}`),
        { concurrency: 8 }
      )
      const { page } = yield* openSignedIn(yield* key({}, "follows"), "/sessions")
      const row = (ticket: string) => page.getByRole("row").filter({ hasText: ticket })
      yield* Effect.promise(() => row("old-59").waitFor())
      yield* make("arrived-1")
      yield* Effect.promise(async () => {
        await row("arrived-1").waitFor()
        await page.evaluate(() => document.querySelector("#content")?.scrollTo(0, 1_000))
      })
      yield* make("arrived-2")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "1 new" }).waitFor()
        assert.strictEqual(await row("arrived-2").count(), 0)
        await page.getByRole("button", { name: "1 new" }).click()
        await row("arrived-2").waitFor()
        assert.isBelow(await page.evaluate(() => document.querySelector("#content")?.scrollTop ?? -1), 100)
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("a view is saved under a name, is a link, and is kept for its key", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const { page, pageErrors } = yield* openSignedIn(yield* key({}, "views"), "/audit?action=key.created")
      const views = page.getByRole("group", { name: "Saved views" })
      yield* Effect.promise(async () => {
        await views.getByRole("button", { name: "Save view" }).click()
        await page.getByLabel("Name of the view").fill("New <b>keys</b>")
        await page.keyboard.press("Enter")
        await views.getByRole("link", { name: "New <b>keys</b>" }).waitFor()
        await toggleAuditAction(page, "created an API key")
        await page.waitForURL("**/audit")
        await page.reload()
        await views.getByRole("link", { name: "New <b>keys</b>" }).click()
        await page.waitForURL("**/audit?action=key.created")
        await page.locator(".dropdown > summary", { hasText: "created an API key" }).waitFor()
      })
      assert.deepStrictEqual(yield* accessibilityViolations(page), [])
      yield* Effect.promise(async () => {
        // A view that somebody tampered with.
        await page.evaluate(() => {
          for (const name of Object.keys(localStorage)) {
            if (name.startsWith("countersign.views."))
              localStorage.setItem(name, '[{"name":"x","query":"javascript:1"}]')
          }
        })
        await page.reload()
        await page.getByRole("button", { name: "Save view" }).waitFor()
        assert.strictEqual(await views.getByRole("link").count(), 0)
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("views that two tabs save are both kept", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const first = yield* openSignedIn(yield* key({}, "two tabs"), "/audit?action=key.created")
      const { origin } = new URL(first.page.url())
      yield* Effect.promise(async () => {
        const second = await first.page.context().newPage()
        await second.goto(`${origin}/console/audit?action=key.revoked`)
        await second.getByRole("button", { name: "Save view" }).waitFor()
        for (const [page, name] of [
          [first.page, "created"],
          [second, "revoked"]
        ] as const) {
          await page.getByRole("button", { name: "Save view" }).click()
          await page.getByLabel("Name of the view").fill(name)
          await page.keyboard.press("Enter")
          await page.getByRole("link", { name }).waitFor()
        }
        await first.page.reload()
        const views = first.page.getByRole("group", { name: "Saved views" })
        await views.getByRole("link", { name: "revoked" }).waitFor()
        assert.strictEqual(await views.getByRole("link", { name: "created" }).count(), 1)
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("the titles of a dataset, a comparison and feedback name the record and its task", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const at = yield* seedConsoleOrg("record titles")
      const { page } = yield* openSignedIn(yield* key({}, "record titles"), `/datasets/${at.dataset_id}`)
      const hasTitle = (pattern: string) =>
        page.waitForFunction((expected) => new RegExp(expected, "u").test(document.title), pattern)
      yield* Effect.promise(async () => {
        await hasTitle("Version \\d+ · [^·]+ · Countersign$")
        await goTo(page, `/comparisons/${at.comparison_id}`)
        await hasTitle("Comparison \\d{4}-\\d\\d-\\d\\d · [^·]+ · Countersign$")
        await goTo(page, `/feedback/${at.feedback_id}`)
        await hasTitle("orrect.* · [^·]+ · Countersign$")
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("the title of an approval names its tool and ticket, and the palette opens a form", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const agent = yield* client({ preset: "runtime" }, "named")
      const { session_id } = yield* agent.sessions.create({ payload: { metadata: { ticket: "SUP-9001" } } })
      const { approval_id } = yield* agent.sessions.step({
        params: { id: session_id },
        payload: { step_id: StepId.make("one"), tool: "payments.refund", action_class: "write" }
      })
      const { page } = yield* openSignedIn(yield* key({}, "named"), `/approvals/${approval_id}`)
      yield* Effect.promise(async () => {
        await page.waitForFunction(() => document.title.includes("payments.refund · SUP-9001 · Countersign"))
        await page.keyboard.press("Control+k")
        await page.getByRole("dialog").getByRole("combobox").fill("new api")
        await page.getByRole("option", { name: /New API key/ }).click()
        await page.getByRole("dialog").getByLabel("Name").waitFor()
        assert.strictEqual(new URL(page.url()).search, "")
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("a link to one of many pending approvals scrolls its row into view", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const agent = yield* client({ preset: "runtime" }, "many")
      const { session_id } = yield* agent.sessions.create({})
      const ids = yield* Effect.forEach(
        Array.from({ length: 160 }, (_, number) => number),
        (number) =>
          agent.sessions.step({
            params: { id: session_id },
            payload: { step_id: StepId.make(`s${number}`), tool: "mail.send", action_class: "write" }
          })
      )
      // It is not on the first page of the inbox, which has a hundred.
      const last = ids.at(-1)?.approval_id ?? assert.fail("it waits")
      const { page } = yield* openSignedIn(yield* key({}, "many"), `/approvals/${last}`)
      yield* Effect.promise(async () => {
        const row = page.locator(`#option-${last}`)
        await row.waitFor()
        await page.waitForFunction((id) => {
          const list = document.querySelector("[role=listbox]")?.getBoundingClientRect()
          const box = document.getElementById(id)?.getBoundingClientRect()
          return (
            list !== undefined &&
            box !== undefined &&
            box.top >= list.top - 1 &&
            box.bottom <= list.bottom + 1
          )
        }, `option-${last}`)
      })
    }).pipe(Effect.scoped, Effect.orDie))
})
