import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Countersign } from "../../src/testing/index.ts"
import {
  Browser,
  goTo,
  holdRequest,
  holdTimers,
  skipWithoutBrowser,
  openSignedIn
} from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

/** Creates a task with a dataset, and runs of it that each have a pending correction. */ const taskWithCorrections =
  (organization: string, corrections: ReadonlyArray<Record<string, string | number>>) =>
    Effect.gen(function* () {
      const { client } = yield* Countersign
      const admin = yield* client({ preset: "admin", name: "Owner" }, organization)
      const task = yield* admin.tasks.create({
        payload: {
          name: "Sort invoices",
          input_schema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
          answer_schema: {
            type: "object",
            properties: { payer: { type: "string" }, amount: { type: "number" } }
          }
        }
      })
      yield* admin.datasets.create({
        params: { id: task.id },
        payload: { examples: [{ input: { text: "an invoice to Ada" }, answer: { payer: "Ada", amount: 1 } }] }
      })
      const give = (text: string, correction: Record<string, string | number>) =>
        Effect.gen(function* () {
          const run = yield* admin.tasks.run({
            params: { id: task.id },
            payload: { input: { text }, answer: { payer: "Nobody", amount: 1 } }
          })
          return yield* admin.feedback.create({
            payload: { inference_log_id: run.trace_id, score: -1, correction }
          })
        })
      for (const [index, correction] of corrections.entries()) yield* give(`invoice ${index}`, correction)
      return { admin, task, give }
    })

/** The shortest time after which a page does something that its users wait for: a correction counts as read. */
const READING_MS = 300

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Feedback pages", (it) => {
  const test = skipWithoutBrowser(it)

  test("an end user's comment, value, label and pseudonym are in the list, the review and on the run's page", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const { admin, give } = yield* taskWithCorrections("end users", [])
      const { inference_log_id } = yield* give("an invoice", { payer: "Grace" })
      const given = yield* admin.feedback.create({
        payload: {
          inference_log_id,
          score_value: -0.5,
          score_label: "wrong payer",
          comment: "It is <b id=injected>Grace</b>",
          end_user_id: "customer-4711"
        }
      })
      const reviewer = yield* key({ preset: "reviewer", name: "Ada" }, "end users")
      const { pageErrors, page } = yield* openSignedIn(reviewer, "/feedback")
      const seen = yield* Effect.promise(async () => {
        await page.getByLabel("Status").selectOption("recorded")
        const list = page.getByRole("region", { name: "Feedback", exact: true })
        await list.getByText("wrong payer").waitFor()
        const listed = await list.textContent()
        await goTo(page, `/feedback/${given.id}`)
        const comment = page.getByRole("region", { name: "Comment" })
        await comment.waitFor()
        const reviewed = await page.getByRole("article").textContent()
        await goTo(page, `/runs/${inference_log_id}`)
        await page.getByText("wrong payer").waitFor()
        return [listed, reviewed, await page.locator("#content").textContent()]
      })
      for (const text of seen) {
        for (const part of [
          "(-0.5)",
          "wrong payer",
          "It is <b id=injected>Grace</b>",
          given.end_user ?? "eu_"
        ]) {
          assert.include(text ?? "", part)
        }
      }
      assert.deepStrictEqual(pageErrors, [])
    }))

  test(
    "a reviewer compares answer and correction, stages and rejects by keyboard, and is not offered to promote",
    () =>
      Effect.gen(function* () {
        const { key } = yield* Countersign
        const { admin, task } = yield* taskWithCorrections("review", [
          { payer: "Grace", amount: 1 },
          { payer: "<b id=injected>Bob</b>", amount: 7 }
        ])
        const reviewer = yield* key({ preset: "reviewer", name: "Ada" }, "review")
        const { pageErrors, page } = yield* openSignedIn(reviewer, "/feedback")
        yield* Effect.promise(async () => {
          // These pages are cached after the first visit: a later review must refresh them.
          await goTo(page, `/promotion/${task.id}`)
          await page.getByText("No staged corrections").waitFor()
          await goTo(page, "/feedback")
          await page.getByLabel("Status").selectOption("staged")
          await page.getByText("No staged feedback").waitFor()
          await page.getByLabel("Status").selectOption("pending")
          await page.getByText("Incorrect").first().waitFor()
          await page.keyboard.press("j")
          const row = page.getByRole("row").filter({ hasText: "payer" })
          await row.getByText("differs").waitFor()
          await row.getByText("Nobody").waitFor()
          await row.getByText("<b id=injected>Bob</b>").waitFor()
          assert.strictEqual(await page.locator("#injected").count(), 0)
          // A key acts only on what has been on the screen for a moment.
          await page.locator("[aria-keyshortcuts=r]").waitFor()
          await page.keyboard.press("r")
          await page.keyboard.type("That is no name")
          await page.keyboard.press("Enter")
          // The next correction is selected immediately.
          await page.getByRole("cell").getByText("Grace").waitFor()
          await page.locator("[aria-keyshortcuts=s]").waitFor()
          await page.keyboard.press("s")
          await page.getByText("No feedback to review").waitFor()
          await page.getByLabel("Status").selectOption("staged")
          await page.getByRole("button", { name: /Grace/ }).waitFor()
          await goTo(page, `/promotion/${task.id}`)
          await page.getByText("Grace").waitFor()
          assert.strictEqual(await page.getByRole("button", { name: /^Promote/ }).count(), 0)
        })
        const { feedback } = yield* admin.feedback.list()
        assert.deepStrictEqual(
          feedback.map(({ review_note, reviewed_by, status }) => [status, reviewed_by?.name, review_note]),
          [
            ["rejected", "Ada", "That is no name"],
            ["staged", "Ada", null]
          ]
        )
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie),
    120_000
  )

  test("a review that is recorded late does not leave the page that is open by then", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      yield* taskWithCorrections("late", [
        { payer: "Bob", amount: 7 },
        { payer: "Cleo", amount: 9 }
      ])
      const { page } = yield* openSignedIn(yield* key({}, "late"), "/feedback")
      yield* Effect.promise(async () => {
        await page.locator(".feedback-row-button").first().click()
        const staging = await holdRequest(page, "**/stage")
        await page.getByRole("button", { name: "Stage" }).click()
        await staging.asked
        await goTo(page, "/sessions")
        await page.getByRole("heading", { name: "Sessions", level: 1 }).waitFor()
        staging.answer()
        await page.getByRole("button", { name: "Undo", exact: true }).waitFor()
        assert.match(page.url(), /\/sessions$/)
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("a key stages only a correction that was on the screen, and staging can be undone for a moment", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const { admin } = yield* taskWithCorrections("seen", [
        { payer: "Grace", amount: 1 },
        { payer: "Bob", amount: 7 },
        { payer: "Cleo", amount: 9 }
      ])
      const staged = Effect.map(
        admin.feedback.list({ query: { status: "staged" } }),
        ({ feedback }) => feedback.length
      )
      const { page } = yield* openSignedIn(
        yield* key({ preset: "reviewer", name: "Ada" }, "seen"),
        "/feedback"
      )
      yield* Effect.promise(async () => {
        await page.getByText("Incorrect").first().waitFor()
        const detail = await holdRequest(page, /\/v1\/feedback\/fbk_[0-9a-f]+$/)
        // By the pointer: a key that is pressed before the page listens is lost, and its record never read.
        await page.locator(".feedback-row-button").first().click()
        await detail.asked
        // The correction is not on the screen yet.
        await page.keyboard.press("s")
        detail.answer()
        await page.getByRole("cell").getByText("Cleo").waitFor()
        await page.locator("[aria-keyshortcuts=s]").waitFor()
      })
      assert.strictEqual(yield* staged, 0)
      yield* Effect.promise(async () => {
        // Nothing is read from now on, and the offer to undo does not end.
        await holdTimers(page, READING_MS)
        // The second press comes before anybody can have read the next correction.
        await page.keyboard.press("s")
        await page.getByRole("cell").getByText("Bob").waitFor()
        await page.keyboard.press("s")
        // A second staging would offer a second undo, which the click would refuse.
        await page.getByRole("button", { name: "Undo", exact: true }).click()
        await page.getByText("Staging undone").waitFor()
        await page.getByRole("cell").getByText("Cleo").waitFor()
      })
      assert.strictEqual(yield* staged, 0)
    }).pipe(Effect.scoped, Effect.orDie))

  test(
    "a promotion after the staged corrections changed requires a reload of the preview, then creates a version",
    () =>
      Effect.gen(function* () {
        const { key } = yield* Countersign
        const { admin, give, task } = yield* taskWithCorrections("promote", [{ payer: "Grace", amount: 2 }])
        const stageAll = Effect.gen(function* () {
          const { feedback } = yield* admin.feedback.list({ query: { status: "pending" } })
          for (const { id } of feedback) yield* admin.feedback.stage({ params: { id } })
        })
        yield* stageAll
        const { page } = yield* openSignedIn(
          yield* key({ preset: "admin" }, "promote"),
          `/promotion/${task.id}`
        )
        yield* Effect.promise(() => page.getByRole("button", { name: "Promote 1 correction" }).waitFor())
        yield* give("a later invoice", { payer: "Hedy", amount: 3 })
        yield* stageAll
        yield* Effect.promise(async () => {
          await page.getByRole("button", { name: "Promote 1 correction" }).click()
          await page.getByText("The staged corrections changed after this preview").waitFor()
          await page.getByRole("button", { name: "Reload and review" }).click()
          await page.getByText("Hedy").waitFor()
          await page.getByRole("button", { name: "Promote 2 corrections" }).click()
          await page.getByRole("link", { name: "Version 2" }).click()
          await page.getByRole("heading", { name: "Version 2" }).waitFor()
          await page.getByText("2 added").waitFor()
        })
        const { feedback } = yield* admin.feedback.list({ query: { status: "promoted" } })
        assert.strictEqual(feedback.length, 2)
      }).pipe(Effect.scoped, Effect.orDie),
    120_000
  )

  test(
    "a promotion after the dataset changed requires a reload of the preview, then builds on the newer version",
    () =>
      Effect.gen(function* () {
        const { key } = yield* Countersign
        const { admin, task } = yield* taskWithCorrections("base", [{ payer: "Grace", amount: 2 }])
        const { feedback } = yield* admin.feedback.list({ query: { status: "pending" } })
        for (const { id } of feedback) yield* admin.feedback.stage({ params: { id } })
        const { pageErrors, page } = yield* openSignedIn(yield* key({}, "base"), `/promotion/${task.id}`)
        yield* Effect.promise(() => page.getByText("0", { exact: true }).first().waitFor())
        const params = { id: task.id }
        const { dataset_id } = yield* admin.tasks.get({ params })
        // An example with the input of the correction: the promotion now replaces it instead of adding one.
        yield* admin.datasets.create({
          params,
          payload: {
            base_dataset_id: dataset_id,
            examples: [{ input: { text: "invoice 0" }, answer: { payer: "Somebody", amount: 9 } }]
          }
        })
        const figure = (text: string) => page.locator(".figure").filter({ hasText: text }).locator("strong")
        yield* Effect.promise(async () => {
          assert.strictEqual(await figure("examples replaced").innerText(), "0")
          await page.getByRole("button", { name: "Promote 1 correction" }).click()
          await page.getByText("The dataset has a newer version than this preview").waitFor()
          assert.isTrue(await page.getByRole("button", { name: "Promote 1 correction" }).isDisabled())
          await page.getByRole("button", { name: "Reload and review" }).click()
          await figure("examples replaced").filter({ hasText: "1" }).waitFor()
          await page.getByRole("button", { name: "Promote 1 correction" }).click()
          await page.getByRole("link", { name: "Version 3" }).click()
          await page.getByText("1 replaced").waitFor()
        })
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie),
    120_000
  )

  test("a review after another reviewer's decision shows that decision, and redacted secrets are marked", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const { admin, task } = yield* taskWithCorrections("warned", [
        { payer: "password: hunter2-hunter2", amount: 2 }
      ])
      const { page } = yield* openSignedIn(
        yield* key({ preset: "reviewer", name: "Ada" }, "warned"),
        `/feedback/task/${task.id}`
      )
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: /Incorrect/ }).click()
        await page.getByText("Protected values were removed from").waitFor()
        await page.getByText("#/correction/payer").waitFor()
        await page.getByRole("cell").getByText("[REDACTED]").waitFor()
      })
      const { feedback } = yield* admin.feedback.list()
      yield* admin.feedback.reject({ params: { id: feedback[0]!.id }, payload: { note: "Not this one" } })
      yield* Effect.promise(async () => {
        await page.locator("[aria-keyshortcuts=s]").waitFor()
        await page.keyboard.press("s")
        await page.getByText("Correction not pending").waitFor()
        await page.getByRole("button", { name: "Reload" }).click()
        await page.getByText("Rejected by Owner").waitFor()
        await page.getByText("Not this one").waitFor()
        assert.strictEqual(await page.getByRole("button", { name: /^Stage/ }).count(), 0)
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("an admin deletes feedback and a run, after a confirmation", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const { admin, task } = yield* taskWithCorrections("deletes", [{ payer: "Grace" }, { payer: "Linus" }])
      const { feedback } = yield* admin.feedback.list()
      const newest = feedback[0] ?? assert.fail("no feedback")
      const { page } = yield* openSignedIn(
        yield* key({ preset: "admin", name: "Ada" }, "deletes"),
        `/feedback/${newest.id}`
      )
      const deleteShown = async (question: string, done: string) => {
        await page.getByRole("button", { name: "Delete" }).click()
        await page.getByText(question).waitFor()
        await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click()
        await page.getByRole("button", { name: "Delete" }).click()
        await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click()
        await page.getByText(done).waitFor()
      }
      yield* Effect.promise(() => deleteShown("Delete this feedback?", "Feedback deleted"))
      const left = yield* admin.feedback.list()
      assert.deepStrictEqual(
        left.feedback.map(({ id }) => id),
        [feedback[1]?.id]
      )
      yield* Effect.promise(async () => {
        await goTo(page, `/runs/${newest.inference_log_id}`)
        await deleteShown("Delete this run?", "Run deleted")
        await page.getByText("Linus").or(page.getByText("Nobody")).first().waitFor()
      })
      const { runs } = yield* admin.runs.list({ params: { id: task.id } })
      assert.deepStrictEqual(
        runs.map(({ trace_id }) => trace_id),
        [feedback[1]?.inference_log_id]
      )
    }).pipe(Effect.scoped, Effect.orDie))
})
