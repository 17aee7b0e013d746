import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { Browser, holdRequest, openSignedIn, signInByForm, skipWithoutBrowser } from "../support/browser.ts"
import { service } from "../support/service.ts"
import { sortingTask } from "../support/tasks.ts"

const environment = Layer.provideMerge(Browser.layer, service())

/** An organization with a task, and an admin key to edit it. */
const createTask = Effect.fnUntraced(function* (organization: string) {
  const { client, key } = yield* Countersign
  const admin = yield* client({ name: "Grace" }, organization)
  const task = yield* admin.tasks.create({ payload: sortingTask })
  return { admin, task, params: { id: task.id }, secret: yield* key({ name: "Ada" }, organization) }
})

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Unsaved work", (it) => {
  const test = skipWithoutBrowser(it)

  test("an edited task is kept over another page, a reload and the end of the session; its secrets are not", () =>
    Effect.gen(function* () {
      const { admin, params, secret, task } = yield* createTask("task")
      const { page, pageErrors } = yield* openSignedIn(secret, `/tasks/${task.id}/edit`)
      const back = async () => {
        await page.getByText("Your unsaved changes are back").waitFor()
        assert.strictEqual(await page.getByLabel("Instructions").inputValue(), "Typed for an hour")
      }
      yield* Effect.promise(async () => {
        await page.getByLabel(/^OpenAI-compatible model/).check()
        await page.getByLabel("Provider API key").fill("sk-not-to-be-stored")
        await page.getByLabel("Instructions").fill("Typed for an hour")
        await page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Tasks" }).click()
        await page.getByRole("heading", { name: "Tasks", level: 1 }).waitFor()
        await page.goBack()
        await back()
        await page.reload()
        await back()
        assert.strictEqual(await page.getByLabel("Provider API key").inputValue(), "")
        const stored = await page.evaluate(() => JSON.stringify(sessionStorage))
        assert.include(stored, "Typed for an hour")
        assert.notInclude(stored, "sk-not-to-be-stored")
        await page.context().clearCookies()
        await signInByForm(page, secret, `/tasks/${task.id}/edit`)
        await back()
        await page.getByLabel(/^Nearest example/).check()
        await page.getByRole("button", { name: "Save working copy" }).click()
        await page.getByText("Working copy saved").waitFor()
        await page.goto(`/console/tasks/${task.id}/edit`)
        await page.getByLabel("Instructions").waitFor()
        assert.strictEqual(await page.getByText("Your unsaved changes are back").count(), 0)
      })
      assert.strictEqual((yield* admin.tasks.get({ params })).instructions, "Typed for an hour")
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("changes of a task that was saved elsewhere meanwhile are put onto it, or discarded", () =>
    Effect.gen(function* () {
      const { admin, params, secret, task } = yield* createTask("conflict")
      const { page } = yield* openSignedIn(secret, `/tasks/${task.id}/edit`)
      yield* Effect.promise(async () => {
        await page.getByLabel("Instructions").fill("Mine")
        await page.getByLabel("Name").fill("my name")
      })
      yield* admin.tasks.update({ params, payload: { name: "their name", review_share: 0.25 } })
      yield* Effect.promise(async () => {
        await page.reload()
        await page.getByText("The task was saved elsewhere since you typed this").waitFor()
        await page.getByText("Fields that changed in both: name.").waitFor()
        await page.getByRole("button", { name: "Keep my changes" }).click()
        await page.getByRole("button", { name: "Save working copy" }).click()
        await page.getByText("Working copy saved").waitFor()
      })
      assert.deepInclude(yield* admin.tasks.get({ params }), {
        name: "my name",
        instructions: "Mine",
        review_share: 0.25
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("a new task is kept, until it is cancelled", () =>
    Effect.gen(function* () {
      const { secret } = yield* createTask("new")
      const { page } = yield* openSignedIn(secret, "/tasks/new")
      yield* Effect.promise(async () => {
        await page.getByLabel("Name").fill("half typed")
        await page.reload()
        await page.getByText("Your unsaved changes are back").waitFor()
        assert.strictEqual(await page.getByLabel("Name").inputValue(), "half typed")
        await page.getByRole("link", { name: "Cancel" }).click()
        await page.getByRole("link", { name: "New task" }).click()
        await page.getByLabel("Name").waitFor()
        assert.strictEqual(await page.getByLabel("Name").inputValue(), "")
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("unsaved rules are kept over a reload, tell that others saved meanwhile, and are gone after signing out", () =>
    Effect.gen(function* () {
      const { admin, secret } = yield* createTask("rules")
      const { page } = yield* openSignedIn(secret, "/rules")
      const rules = page.getByRole("list", { name: /rules/i })
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "New rule" }).click()
        await page.getByRole("dialog").getByLabel("Tool").fill("payments.refund")
        await page.getByRole("dialog").getByRole("button", { name: "Add rule" }).click()
        await page.getByText("Unsaved changes.").waitFor()
        await page.reload()
        await page.getByText("Your unsaved changes are back").waitFor()
        await rules.getByText("payments.refund").waitFor()
      })
      const { revision } = yield* admin.approvalRules.get()
      yield* admin.approvalRules.replace({ payload: { revision, rules: [] } })
      yield* Effect.promise(async () => {
        await page.reload()
        await page.getByText(/They are based on revision/).waitFor()
        await rules.getByText("payments.refund").waitFor()
        await page.getByRole("button", { name: "Save rules" }).click()
        await page.getByText("The rules changed while you were editing").waitFor()
        await page.getByRole("button", { name: "Load saved rules" }).click()
        await page.getByText("Unsaved changes.").waitFor({ state: "detached" })
        await page.reload()
        await page.getByRole("heading", { name: "Rules", level: 1 }).waitFor()
        assert.strictEqual(await page.getByText("Your unsaved changes are back").count(), 0)
        await page.goto("/console/tasks/new")
        await page.getByLabel("Name").fill("not for the next person")
        await page.getByRole("button", { name: "Sign out" }).click()
        await page.getByLabel("API key").waitFor()
        assert.notInclude(
          await page.evaluate(() => JSON.stringify(sessionStorage)),
          "not for the next person"
        )
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("changed settings are kept over a reload beside what others saved, until they are saved or discarded", () =>
    Effect.gen(function* () {
      const { admin, secret } = yield* createTask("settings")
      const { page, pageErrors } = yield* openSignedIn(secret, "/data")
      const [runs, sessions] = [page.getByLabel("Runs, days"), page.getByLabel("Agent sessions, days")]
      yield* Effect.promise(async () => {
        await runs.fill("30")
        await page.getByLabel("IBANs").check()
      })
      const { revision } = yield* admin.retentionSettings.get()
      yield* admin.retentionSettings.replace({
        payload: { revision, run_days: null, feedback_days: null, session_days: 90 }
      })
      yield* Effect.promise(async () => {
        await page.reload()
        const notices = page.getByText("Your unsaved changes are back")
        await notices.nth(1).waitFor()
        assert.deepStrictEqual([await runs.inputValue(), await sessions.inputValue()], ["30", "90"])
        assert.isTrue(await page.getByLabel("IBANs").isChecked())
        const redaction = page.getByRole("region", { name: "Redaction" })
        await redaction.getByRole("button", { name: "Discard changes" }).click()
        assert.isFalse(await page.getByLabel("IBANs").isChecked())
        await page.getByRole("region", { name: "Retention" }).getByRole("button", { name: "Save" }).click()
        await page.getByText("Retention saved").waitFor()
        await page.reload()
        await runs.waitFor()
        assert.deepStrictEqual([await runs.inputValue(), await notices.count()], ["30", 0])
      })
      assert.deepInclude(yield* admin.retentionSettings.get(), { run_days: 30, session_days: 90 })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("no change is taken while settings are saved, which would overwrite it", () =>
    Effect.gen(function* () {
      const { secret } = yield* createTask("saving")
      const { page } = yield* openSignedIn(secret, "/data")
      const [runs, sessions] = [page.getByLabel("Runs, days"), page.getByLabel("Agent sessions, days")]
      yield* Effect.promise(async () => {
        await runs.fill("30")
        const save = await holdRequest(page, "**/retention-settings")
        await page.getByRole("region", { name: "Retention" }).getByRole("button", { name: "Save" }).click()
        await save.asked
        await sessions.focus()
        await page.keyboard.type("90")
        assert.strictEqual(await sessions.inputValue(), "")
        save.answer()
        await page.getByText("Retention saved").waitFor()
        await page.locator("[inert]").waitFor({ state: "detached" })
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("a changed list that was also saved elsewhere meanwhile is saved only after a question", () =>
    Effect.gen(function* () {
      const { admin, secret } = yield* createTask("list")
      const { page } = yield* openSignedIn(secret, "/data")
      const redaction = page.getByRole("region", { name: "Redaction" })
      const notice = redaction.getByText("The redaction settings changed while you were editing")
      const theirs = [{ name: "theirs", pattern: "T-\\d{6}" }]
      const patterns = Effect.map(admin.redactionSettings.get(), ({ patterns }) =>
        patterns.map(({ name }) => name)
      )
      yield* Effect.promise(() => redaction.getByLabel("Patterns").fill("mine: M-\\d{6}"))
      const { revision: _, ...settings } = yield* admin.redactionSettings.get()
      yield* admin.redactionSettings.replace({ payload: { ...settings, patterns: theirs } })
      yield* Effect.promise(async () => {
        await page.reload()
        await notice.waitFor()
        assert.strictEqual(await redaction.getByLabel("Patterns").inputValue(), "mine: M-\\d{6}")
        assert.isTrue(await redaction.getByRole("button", { name: "Save", exact: true }).isDisabled())
      })
      assert.deepStrictEqual(yield* patterns, ["theirs"])
      yield* Effect.promise(async () => {
        await redaction.getByRole("button", { name: "Overwrite with mine" }).click()
        await page.getByText("Redaction saved").waitFor()
        await notice.waitFor({ state: "detached" })
      })
      assert.deepStrictEqual(yield* patterns, ["mine"])
    }).pipe(Effect.scoped, Effect.orDie))

  test("a half-filled dialog opens again after Back, a reload and the end of the session, without its secrets", () =>
    Effect.gen(function* () {
      const { secret } = yield* createTask("dialogs")
      const { page, pageErrors } = yield* openSignedIn(secret, "/overview")
      const dialog = page.getByRole("dialog")
      /** Opens a form, fills it, and leaves the page in each way. */
      const leave = async (
        path: string,
        open: string,
        fill: () => Promise<void>,
        check: () => Promise<void>
      ) => {
        await page.goto("/console/overview")
        await page.goto(`/console${path}`)
        await page.getByRole("button", { name: open }).click()
        await fill()
        const back = async () => {
          await dialog.getByText("Your unsaved changes are back").waitFor()
          await check()
        }
        await page.reload()
        await back()
        await page.goBack()
        await page.getByRole("heading", { name: "Overview" }).waitFor()
        await page.goForward()
        await back()
        await page.context().clearCookies()
        await signInByForm(page, secret, path)
        await back()
        // A click beside it asks, also before anything more was typed.
        await page.mouse.click(5, 5)
        await dialog.getByText("Your input is not saved.").waitFor()
        await dialog.getByRole("button", { name: "Discard it" }).click()
        await page.reload()
        await page.getByRole("button", { name: open }).click()
        await dialog.waitFor()
        assert.strictEqual(await dialog.getByText("Your unsaved changes are back").count(), 0)
        await page.keyboard.press("Escape")
        await dialog.waitFor({ state: "detached" })
      }
      yield* Effect.promise(async () => {
        await leave(
          "/rules",
          "New rule",
          async () => {
            await dialog.getByLabel("Tool", { exact: true }).fill("")
            await dialog.getByLabel("Reason").fill("Half a thought")
            await dialog.getByRole("button", { name: "Add condition" }).click()
            await dialog.getByLabel("Condition 1, JSON Pointer").fill("/amount")
          },
          async () => {
            assert.strictEqual(await dialog.getByLabel("Tool", { exact: true }).inputValue(), "")
            assert.strictEqual(await dialog.getByLabel("Reason").inputValue(), "Half a thought")
            assert.strictEqual(await dialog.getByLabel("Condition 1, JSON Pointer").inputValue(), "/amount")
          }
        )
        await leave(
          "/keys",
          "New key",
          async () => {
            await dialog.getByLabel("Name", { exact: true }).fill("Joan")
            await dialog.getByRole("radio", { name: /^runtime/ }).check()
          },
          async () => {
            assert.strictEqual(await dialog.getByLabel("Name", { exact: true }).inputValue(), "Joan")
            assert.isTrue(await dialog.getByRole("radio", { name: /^runtime/ }).isChecked())
          }
        )
        await leave(
          "/endpoints",
          "New endpoint",
          async () => {
            await dialog.getByLabel("URL").fill("https://hooks.example.com/secret-path")
            await dialog.getByLabel("Description").fill("Orders team")
          },
          async () => {
            assert.strictEqual(await dialog.getByLabel("URL").inputValue(), "https://")
            assert.strictEqual(await dialog.getByLabel("Description").inputValue(), "Orders team")
            assert.notInclude(await page.evaluate(() => JSON.stringify(sessionStorage)), "secret-path")
          }
        )
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("the comment of a decision is kept over another approval and a reload", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const agent = yield* client({ preset: "runtime" }, "comment")
      const { session_id } = yield* agent.sessions.create({})
      for (const tool of ["mail.first", "mail.second"]) {
        yield* agent.sessions.step({
          params: { id: session_id },
          payload: { step_id: StepId.make(tool), tool, action_class: "write" }
        })
      }
      const { page } = yield* openSignedIn(
        yield* key({ preset: "reviewer", name: "Ada" }, "comment"),
        "/approvals"
      )
      const comment = page.getByLabel("Comment")
      const openForm = async (tool: string) => {
        await page.getByRole("option", { name: tool }).click()
        await page.getByRole("heading", { name: tool }).waitFor()
        await page.getByRole("button", { name: "Reject" }).click()
      }
      yield* Effect.promise(async () => {
        await openForm("mail.first")
        await comment.fill("Too many recipients")
        await openForm("mail.second")
        assert.strictEqual(await comment.inputValue(), "")
        await openForm("mail.first")
        assert.strictEqual(await comment.inputValue(), "Too many recipients")
        await page.reload()
        await page.getByRole("button", { name: "Reject" }).click()
        assert.strictEqual(await comment.inputValue(), "Too many recipients")
        await comment.press("Enter")
        await page.getByText("Rejected by Ada").first().waitFor()
        assert.notInclude(await page.evaluate(() => JSON.stringify(sessionStorage)), "Too many recipients")
      })
    }).pipe(Effect.scoped, Effect.orDie))
})
