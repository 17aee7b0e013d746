import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Page } from "playwright-core"
import { MAX_REVIEWS } from "../../src/api/ReviewBatch.ts"
import { Countersign } from "../../src/testing/index.ts"
import {
  accessibilityViolations,
  Browser,
  horizontalOverflow,
  openSignedIn,
  skipWithoutBrowser
} from "../support/browser.ts"
import { createDesk } from "../support/feedback.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

/** Makes pending corrections, the first of them the oldest, and a key to review them. */
const correctedDesk = (organization: string, categories: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const { key } = yield* Countersign
    const desk = yield* createDesk(organization)
    const ids = yield* Effect.forEach(categories, (category, index) =>
      Effect.flatMap(desk.run(`message ${index}`), (trace) =>
        Effect.map(desk.correct(trace, { category, confidence: 1 }), ({ id }) => id)
      )
    )
    return { ...desk, ids, reviewerKey: yield* key({ preset: "reviewer", name: "Ada" }, organization) }
  })

const sheetOf = (page: Page) => page.getByRole("dialog")

const rowsOf = (page: Page) =>
  page.getByRole("region", { name: "Feedback", exact: true }).getByRole("listitem")

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })(
  "Reviewing several corrections",
  (it) => {
    const test = skipWithoutBrowser(it)

    test("rows show the task, the input and the correction; several are compared, staged together, and it is undone", () =>
      Effect.gen(function* () {
        const { ids, reviewer, reviewerKey } = yield* correctedDesk("keyboard", [
          "billing",
          "shipping",
          "billing"
        ])
        const opened = yield* openSignedIn(reviewerKey, "/feedback")
        const { page } = opened
        yield* Effect.promise(async () => {
          const newest = rowsOf(page).first()
          await newest.getByText("sort messages").waitFor()
          await newest.getByText("text: message 2").waitFor()
          await newest.getByText("category: billing · confidence: 1").waitFor()
          await page.keyboard.press("j")
          await page.keyboard.press("x")
          await page.getByText("1 selected").waitFor()
          await page.keyboard.press("Shift+ArrowDown")
          await page.keyboard.press("Shift+ArrowDown")
          await page.getByText("3 selected").waitFor()
          await page.keyboard.press("s")
          const sheet = sheetOf(page)
          await sheet.getByRole("heading", { name: "Review 3 corrections" }).waitFor()
          // What differs in a table with a row for each, what is equal once.
          const corrections = sheet.getByRole("table", { name: "sort messages" })
          await corrections.getByRole("columnheader", { name: "/category" }).waitFor()
          await corrections
            .getByRole("row", { name: /message 2/ })
            .getByText("billing")
            .waitFor()
          await corrections
            .getByRole("row", { name: /message 1/ })
            .getByText("shipping")
            .waitFor()
          await sheet.getByRole("definition").getByText("1", { exact: true }).waitFor()
        })
        assert.deepStrictEqual(yield* accessibilityViolations(page), [])
        yield* Effect.promise(async () => {
          const sheet = sheetOf(page)
          await sheet.getByRole("button", { name: "Stage 3" }).click()
          await sheet.getByText("3 staged").waitFor()
        })
        assert.deepStrictEqual(yield* accessibilityViolations(page), [])
        const statuses = Effect.forEach(ids, (id) =>
          Effect.map(reviewer.feedback.get({ params: { id } }), ({ status }) => status)
        )
        assert.deepStrictEqual(yield* statuses, ["staged", "staged", "staged"])
        yield* Effect.promise(async () => {
          await sheetOf(page).getByRole("button", { name: "Close" }).click()
          await page.getByRole("button", { name: "Undo", exact: true }).click()
          await page.getByText("3 corrections pending again").waitFor()
          await rowsOf(page).nth(2).waitFor()
        })
        assert.deepStrictEqual(yield* statuses, ["pending", "pending", "pending"])
        assert.deepStrictEqual(opened.pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie))

    test("results name what was reviewed by others meanwhile, and a rejection records one note", () =>
      Effect.gen(function* () {
        const { ids, reviewer, reviewerKey } = yield* correctedDesk("meanwhile", ["billing", "shipping"])
        const [first = assert.fail(), second = assert.fail()] = ids
        const { page } = yield* openSignedIn(reviewerKey, "/feedback")
        yield* Effect.promise(async () => {
          await rowsOf(page).first().getByRole("checkbox").check()
          // A click with Shift selects the range.
          await rowsOf(page)
            .nth(1)
            .getByRole("checkbox")
            .click({ modifiers: ["Shift"] })
          await page.getByText("2 selected").waitFor()
          await page.getByRole("button", { name: /Review together/ }).click()
          await sheetOf(page)
            .getByLabel(/Note to the submitters/)
            .fill("Wrong queue")
        })
        yield* reviewer.feedback.stage({ params: { id: first } })
        yield* reviewer.feedback.reject({ params: { id: first }, payload: {} })
        yield* Effect.promise(async () => {
          const sheet = sheetOf(page)
          await sheet.getByRole("button", { name: /^Reject/ }).click()
          await sheet
            .getByText(/rejected/)
            .first()
            .waitFor()
        })
        assert.strictEqual(
          (yield* reviewer.feedback.get({ params: { id: second } })).review_note,
          "Wrong queue"
        )
        assert.strictEqual((yield* reviewer.feedback.get({ params: { id: first } })).review_note, null)
      }).pipe(Effect.scoped, Effect.orDie))

    test("everything of the filter is selected beyond the loaded page, up to the bound of a request", () =>
      Effect.gen(function* () {
        const { reviewerKey } = yield* correctedDesk(
          "all",
          Array.from({ length: MAX_REVIEWS + 5 }, (_, index) => (index % 2 === 0 ? "billing" : "shipping"))
        )
        const { page } = yield* openSignedIn(reviewerKey, "/feedback")
        yield* Effect.promise(async () => {
          await rowsOf(page).first().getByRole("checkbox").check()
          const loaded = await rowsOf(page).count()
          assert.isBelow(loaded, MAX_REVIEWS)
          await page.getByRole("button", { name: /Select all of this filter/ }).click()
          await page.getByText(`${MAX_REVIEWS} selected`).waitFor()
          await page.getByRole("button", { name: /Review together/ }).click()
          await sheetOf(page)
            .getByRole("button", { name: `Stage ${MAX_REVIEWS}` })
            .click()
          await sheetOf(page).getByText(`${MAX_REVIEWS} staged`).waitFor()
          await page.keyboard.press("Escape")
          await page.getByLabel("Status").selectOption("staged")
          await rowsOf(page).first().getByRole("checkbox").check()
          await page.keyboard.press("Escape")
          await page.getByText("1 selected").waitFor({ state: "detached" })
        })
      }).pipe(Effect.scoped, Effect.orDie))

    test("on a phone the rows, the selection and the sheet fit", () =>
      Effect.gen(function* () {
        const { reviewerKey } = yield* correctedDesk("phone", ["billing", "shipping"])
        const { page } = yield* openSignedIn(reviewerKey, "/feedback", {
          viewport: { width: 390, height: 844 },
          hasTouch: true,
          isMobile: true
        })
        yield* Effect.promise(async () => {
          await rowsOf(page).first().getByRole("checkbox").check()
          await rowsOf(page).nth(1).getByRole("checkbox").check()
          assert.strictEqual(await horizontalOverflow(page), 0)
          await page.getByRole("button", { name: /Review together/ }).tap()
          await sheetOf(page).getByRole("button", { name: "Stage 2" }).waitFor()
          assert.strictEqual(await horizontalOverflow(page), 0)
        })
        assert.deepStrictEqual(yield* accessibilityViolations(page), [])
      }).pipe(Effect.scoped, Effect.orDie))
  }
)
