import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { Browser, goTo, holdRequest, openSignedIn, skipWithoutBrowser } from "../support/browser.ts"
import { seedConsoleOrg } from "../support/seedConsoleOrg.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

/** An organization with steps that wait, and a function that decides one as another reviewer. */
const pendingSteps = (organization: string, tools: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const { client, key } = yield* Countersign
    const agent = yield* client({ preset: "runtime" }, organization)
    const grace = yield* client({ preset: "reviewer", name: "Grace" }, organization)
    const { session_id } = yield* agent.sessions.create({})
    const ids = yield* Effect.forEach(tools, (tool) =>
      Effect.map(
        agent.sessions.step({
          params: { id: session_id },
          payload: { step_id: StepId.make(tool), tool, action_class: "write" }
        }),
        ({ approval_id }) => approval_id ?? assert.fail("the step waits for a person")
      )
    )
    const reject = (index: number) =>
      grace.approvals.decide({ params: { id: ids[index]! }, payload: { decision: "reject" } })
    return { ids, reject, ada: yield* key({ preset: "reviewer", name: "Ada" }, organization) }
  })

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("The place on a page", (it) => {
  const test = skipWithoutBrowser(it)

  test("Back closes an approval, and the closed list keeps its tab, its order and its keys", () =>
    Effect.gen(function* () {
      const { ada, reject } = yield* pendingSteps("closed", ["mail.first", "mail.second", "mail.waiting"])
      // The one that was asked for first is closed last.
      yield* reject(1)
      yield* reject(0)
      const { page } = yield* openSignedIn(ada, "/sessions")
      yield* Effect.promise(async () => {
        await page.getByRole("link", { name: /Approvals/ }).click()
        await page.getByRole("option", { name: /mail\.waiting/ }).click()
        await page.getByRole("heading", { name: "mail.waiting" }).waitFor()
        await page.goBack()
        await page.getByText("Select an approval").waitFor()
        await page.getByRole("button", { name: "Closed" }).click()
        await page.getByRole("button", { name: /mail\.first/ }).waitFor()
        await page.reload()
        const rows = page.getByRole("region", { name: "Closed approvals" }).getByRole("listitem")
        await rows.first().getByText("mail.first").waitFor()
        await rows.nth(1).getByText("mail.second").waitFor()
        await page.keyboard.press("j")
        await page.getByRole("heading", { name: "mail.first" }).waitFor()
        await page.keyboard.press("j")
        await page.getByRole("heading", { name: "mail.second" }).waitFor()
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("the feedback's filter is in the address, and new feedback arrives without a reload", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const at = yield* seedConsoleOrg("filter")
      const admin = yield* client({}, "filter")
      const { page } = yield* openSignedIn(yield* key({ preset: "reviewer" }, "filter"), "/feedback")
      yield* Effect.promise(async () => {
        const list = page.getByRole("region", { name: "Feedback", exact: true })
        await page.getByLabel("Status").selectOption("rejected")
        await list.getByText("thank you").waitFor()
        await page.reload()
        await list.getByText("thank you").waitFor()
        assert.strictEqual(await page.getByLabel("Status").inputValue(), "rejected")
        await page.getByLabel("Status").selectOption("pending")
        await page
          .getByRole("button", { name: /Incorrect/ })
          .first()
          .waitFor()
      })
      const run = yield* admin.tasks.run({
        params: { id: at.task_id },
        payload: { input: { text: "a new one" }, answer: { category: "other" } }
      })
      yield* admin.feedback.create({
        payload: { inference_log_id: run.trace_id, score: -1, correction: { category: "shipping" } }
      })
      yield* Effect.promise(() => page.getByRole("button", { name: /category: shipping/ }).waitFor())
    }).pipe(Effect.scoped, Effect.orDie))

  test("a comment is kept when somebody else decides, and when the service does not answer", () =>
    Effect.gen(function* () {
      const { ada, ids, reject } = yield* pendingSteps("comment", ["mail.send"])
      const { page } = yield* openSignedIn(ada, `/approvals/${ids[0]}`)
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Reject" }).click()
        await page.getByLabel("Comment").fill("Too many recipients")
        await page.route("**/decide", (route) => route.abort())
        await page.getByLabel("Comment").press("Enter")
        await page.getByText("Whether your decision was recorded is not known").waitFor()
        assert.strictEqual(await page.getByLabel("Comment").inputValue(), "Too many recipients")
      })
      yield* reject(0)
      yield* Effect.promise(async () => {
        await page.getByText("Rejected by Grace").waitFor()
        await page.getByText("Your comment was not recorded: Too many recipients").waitFor()
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("a decision that is recorded late does not leave the page that is open by then", () =>
    Effect.gen(function* () {
      const { ada, ids } = yield* pendingSteps("late", ["mail.first", "mail.second", "mail.third"])
      const { page } = yield* openSignedIn(ada, "/sessions")
      yield* Effect.promise(async () => {
        await page.evaluate(() => localStorage.setItem("countersign.advance", "yes"))
        await page.goto(`/console/approvals/${ids[0]}`)
        await page.getByRole("option", { name: "mail.third" }).waitFor()
        await page.getByRole("button", { name: "Reject" }).click()
        const deciding = await holdRequest(page, "**/decide")
        await page.getByLabel("Comment").press("Enter")
        await deciding.asked
        await page.getByRole("option", { name: "mail.third" }).click()
        await page.getByRole("heading", { name: "mail.third" }).waitFor()
        deciding.answer()
        await page.getByText("Rejected: mail.first").waitFor()
        assert.include(page.url(), ids[2]!)
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("code that could not be loaded in advance is loaded when it is needed", () =>
    Effect.gen(function* () {
      const { ada } = yield* pendingSteps("preload", ["mail.send"])
      const { page, pageErrors } = yield* openSignedIn(ada, "/sessions")
      yield* Effect.promise(async () => {
        await page.route("**/assets/ApprovalDetail-*", (route) => route.abort())
        const failed = page.waitForEvent("requestfailed")
        await goTo(page, "/approvals")
        await failed
        await page.getByRole("option", { name: "mail.send" }).waitFor()
        await page.unroute("**/assets/ApprovalDetail-*")
        await page.keyboard.press("j")
        await page.getByRole("button", { name: "Approve" }).waitFor()
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("a page whose code did not load is loaded again at the next visit", () =>
    Effect.gen(function* () {
      const { ada } = yield* pendingSteps("offline", ["mail.send"])
      const { page } = yield* openSignedIn(ada, "/approvals")
      const open = (name: string) =>
        page.getByRole("navigation", { name: "Main" }).getByRole("link", { name }).click()
      yield* Effect.promise(async () => {
        await page.getByRole("option", { name: "mail.send" }).waitFor()
        await page.route("**/assets/Sessions-*", (route) => route.abort())
        await open("Sessions")
        await page.getByText("This page failed to load").waitFor()
        await page.unroute("**/assets/Sessions-*")
        await open("Approvals")
        await page.getByRole("option", { name: "mail.send" }).waitFor()
        await open("Sessions")
        await page.getByRole("heading", { name: "Sessions", level: 1 }).waitFor()
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("a row that is clicked with Ctrl opens in a new tab", () =>
    Effect.gen(function* () {
      const { ada } = yield* pendingSteps("tab", ["mail.send"])
      const { page } = yield* openSignedIn(ada, "/approvals")
      yield* Effect.promise(async () => {
        const opened = page.context().waitForEvent("page")
        await page.getByRole("option", { name: "mail.send" }).click({ modifiers: ["Control"] })
        const tab = await opened
        await tab.waitForURL("**/console/approvals/apr_*")
        assert.match(page.url(), /\/approvals$/)
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("the page of a thing that does not exist leads back to the list", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const { page } = yield* openSignedIn(yield* key({}, "missing"), `/tasks/tsk_${"0".repeat(32)}`)
      yield* Effect.promise(async () => {
        await page.getByRole("link", { name: "Back to the list" }).click()
        await page.getByRole("heading", { name: "Tasks", level: 1 }).waitFor()
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("the rule tester names the admins' window, and a reviewer's rules page logs no warning", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      yield* seedConsoleOrg("rules")
      const { page } = yield* openSignedIn(yield* key({ preset: "reviewer" }, "rules"), "/approvals")
      const warnings: Array<string> = []
      page.on("console", (message) => {
        if (message.type() === "warning") warnings.push(message.text())
      })
      yield* Effect.promise(async () => {
        await page.getByRole("link", { name: "Rules" }).click()
        await page.getByLabel("Tool", { exact: true }).fill("payments.refund")
        await page.getByText("Review window 1 h · then 2 h for the admins · on timeout: reject").waitFor()
      })
      assert.deepStrictEqual(warnings, [])
    }).pipe(Effect.scoped, Effect.orDie))
})
