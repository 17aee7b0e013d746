import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import {
  accessibilityViolations,
  Browser,
  horizontalOverflow,
  openSignedIn,
  skipWithoutBrowser
} from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

/** Submits steps with these tools, which wait for a person. Returns the ids of their approvals. */
const ask = Effect.fnUntraced(function* (organization: string, tools: ReadonlyArray<string>) {
  const { client } = yield* Countersign
  const agent = yield* client({ preset: "runtime", name: "agent" }, organization)
  const { session_id } = yield* agent.sessions.create({})
  return yield* Effect.forEach(tools, (tool, index) =>
    Effect.map(
      agent.sessions.step({
        params: { id: session_id },
        payload: {
          step_id: StepId.make(`step-${index}`),
          tool,
          action_class: "write",
          arguments: { amount: 25, currency: "EUR", password: "hunter2", lines: [1] }
        }
      }),
      ({ approval_id }) => approval_id ?? assert.fail("the step waits")
    )
  )
})

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Daily work", (it) => {
  const test = skipWithoutBrowser(it)

  test("a rule is made from a step, above the rule that would hide it, and a half-filled form is not lost", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "rule")
      yield* admin.approvalRules.replace({
        payload: { rules: [{ tool: "mail.*", effect: "allow" }, { effect: "require_approval" }] }
      })
      const [id] = yield* ask("rule", ["payments.refund"])
      const { page, pageErrors } = yield* openSignedIn(yield* key({}, "rule"), `/approvals/${id}`)
      yield* Effect.promise(async () => {
        await page.getByRole("link", { name: "Make a rule that allows steps like this" }).click()
        const dialog = page.getByRole("dialog", { name: "New rule" })
        await dialog.waitFor()
        assert.strictEqual(await dialog.getByLabel("Tool", { exact: true }).inputValue(), "payments.refund")
        const pointers = await dialog
          .getByLabel(/^Condition \d, JSON Pointer$/)
          .evaluateAll((fields) =>
            fields.map((field) => (field instanceof HTMLInputElement ? field.value : ""))
          )
        // Neither a likely secret nor a list is compared.
        assert.deepStrictEqual(pointers, ["/amount", "/currency"])
        await dialog.getByLabel("Reason").fill("Small refunds")

        await page.mouse.click(5, 5)
        await dialog.getByText("Your input is not saved.").waitFor()
        assert.deepStrictEqual(await Effect.runPromise(accessibilityViolations(page)), [])
        await dialog.getByRole("button", { name: "Keep editing" }).click()
        assert.strictEqual(await dialog.getByLabel("Reason").inputValue(), "Small refunds")

        await dialog.getByRole("button", { name: "Add rule" }).click()
        await page.getByText("Added as rule 2, above the rule that matches all its steps").waitFor()
        await page.getByRole("button", { name: "Save rules" }).click()
        await page.getByText("Rules saved").waitFor()
      })
      const { rules } = yield* admin.approvalRules.get()
      assert.deepStrictEqual(
        rules.map(({ effect, tool }) => [tool, effect]),
        [
          ["mail.*", "allow"],
          ["payments.refund", "allow"],
          ["*", "require_approval"]
        ]
      )
      assert.deepStrictEqual(rules[1]?.when, [
        { pointer: "/amount", op: "equals", value: 25 },
        { pointer: "/currency", op: "equals", value: "EUR" }
      ])
      // A step like it is allowed now.
      const agent = yield* client({ preset: "runtime" }, "rule")
      const { session_id } = yield* agent.sessions.create({})
      const step = yield* agent.sessions.step({
        params: { id: session_id },
        payload: {
          step_id: StepId.make("next"),
          tool: "payments.refund",
          action_class: "write",
          arguments: { amount: 25, currency: "EUR" }
        }
      })
      assert.strictEqual(step.decision, "allow")
      yield* Effect.promise(async () => {
        // A form in which nothing was typed closes at once, and a second Escape discards the input.
        await page.getByRole("button", { name: "New rule" }).click()
        const dialog = page.getByRole("dialog")
        await dialog.waitFor()
        await page.mouse.click(5, 5)
        await dialog.waitFor({ state: "detached" })
        await page.getByRole("button", { name: "New rule" }).click()
        await dialog.getByLabel("Reason").fill("x")
        await page.keyboard.press("Escape")
        await dialog.getByText("Your input is not saved.").waitFor()
        await page.keyboard.press("Escape")
        await dialog.waitFor({ state: "detached" })
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("after a decision the next approval opens if its reviewer wants that, and a grant is at hand", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      yield* ask("advance", ["mail.first", "mail.second", "mail.third"])
      const { page, pageErrors } = yield* openSignedIn(
        yield* key({ preset: "reviewer", name: "Ada" }, "advance"),
        "/approvals"
      )
      yield* Effect.promise(async () => {
        await page.getByLabel("Open the next after a decision").check()
        await page.reload()
        assert.isTrue(await page.getByLabel("Open the next after a decision").isChecked())
        await page.getByRole("option", { name: /mail\.first/ }).click()
        await page.getByRole("button", { name: /^Approve/ }).click()
        await page.getByRole("button", { name: "Allow further steps…" }).click()
        await page.getByLabel("Comment (optional)").fill("Fine")
        await page.getByRole("button", { name: "Approve", exact: true }).click()
        await page.getByRole("heading", { name: "mail.second" }).waitFor()
        await page.getByText("Approved: mail.first").waitFor()
        await page.getByRole("button", { name: "View the grant" }).click()
        await page.waitForURL(/\/grants\/grt_/)

        await page.goto("/console/approvals?sort=newest")
        await page.getByRole("listbox").getByRole("option").first().getByText("mail.third").waitFor()
        await page.getByLabel("Open the next after a decision").uncheck()
        await page.getByRole("option", { name: /mail\.second/ }).click()
        await page.getByRole("button", { name: /^Approve/ }).click()
        await page.getByRole("button", { name: "Allow further steps…" }).click()
        await page.getByLabel("Comment (optional)").fill("Fine")
        await page.getByRole("button", { name: "Approve", exact: true }).click()
        await page.getByText("Approved by Ada").waitFor()
        assert.deepStrictEqual(await Effect.runPromise(accessibilityViolations(page)), [])
        await page.getByRole("link", { name: "view or revoke it" }).click()
        await page.getByRole("button", { name: "Revoke" }).waitFor()
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("the list is sorted by the amount of the rule's sentence, and shows the columns that the address names", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "amounts")
      yield* admin.approvalRules.replace({
        payload: {
          rules: [{ effect: "require_approval", summary_template: "Refund {cents|money:EUR} to {name}" }]
        }
      })
      const agent = yield* client({ preset: "runtime", name: "support agent" }, "amounts")
      const { session_id } = yield* agent.sessions.create({})
      for (const [name, cents] of [
        ["Ada", 1290],
        ["Ben", 129_000],
        ["Cem", 50]
      ] as const) {
        yield* agent.sessions.step({
          params: { id: session_id },
          payload: {
            step_id: StepId.make(name),
            tool: "payments.refund",
            action_class: "write",
            arguments: { name, cents }
          }
        })
      }
      const reader = yield* key({ preset: "reviewer", name: "Ada" }, "amounts")
      for (const [width, colorScheme] of [
        [1440, "light"],
        [1024, "dark"]
      ] as const) {
        const { page, pageErrors } = yield* openSignedIn(reader, "/approvals", {
          colorScheme,
          viewport: { width, height: 900 }
        })
        yield* Effect.promise(async () => {
          await page.getByLabel("Sort by").selectOption("By amount")
          await page.getByRole("listbox", { name: "Pending approvals, sorted by amount" }).waitFor()
          await page.locator("summary", { hasText: "Columns" }).click()
          // The pane of the list cuts off what is beside it.
          const outside = await page.evaluate(() => {
            const [pane, menu] = [".list-pane", ".columns-field .dropdown-body"].map((one) =>
              document.querySelector(one)?.getBoundingClientRect()
            )
            if (pane === undefined || menu === undefined) return -1
            return Math.max(pane.left - menu.left, menu.right - pane.right, menu.bottom - pane.bottom, 0)
          })
          assert.strictEqual(outside, 0)
          await page.getByLabel("Amount of the summary").check()
          await page.getByLabel("Requested by").uncheck()
          await page.getByLabel("Due", { exact: true }).uncheck()
          await page.waitForURL(/columns=amount%2Csession%2Ctool%2Cage/)
        })
        assert.deepStrictEqual(yield* accessibilityViolations(page), [])
        yield* Effect.promise(async () => {
          // A link and a reload restore it.
          await page.reload()
          const rows = page.getByRole("listbox").getByRole("option")
          await rows.nth(2).waitFor()
          assert.deepStrictEqual(await page.locator(".row-amount").allTextContents(), [
            "1,290.00 EUR",
            "12.90 EUR",
            "0.50 EUR"
          ])
          assert.strictEqual(await rows.getByText("support agent").count(), 0)
          assert.strictEqual(await rows.locator(".countdown").count(), 0)
          assert.strictEqual(await horizontalOverflow(page), 0)
          assert.isFalse(await page.locator(".columns-field[open]").isVisible())
        })
        assert.deepStrictEqual(yield* accessibilityViolations(page), [])
        assert.deepStrictEqual(pageErrors, [])
      }
    }).pipe(Effect.scoped, Effect.orDie))

  test("an approval prints alone, with all of its arguments", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const agent = yield* client({ preset: "runtime" }, "print")
      const { session_id } = yield* agent.sessions.create({})
      const { approval_id } = yield* agent.sessions.step({
        params: { id: session_id },
        payload: {
          step_id: StepId.make("one"),
          tool: "db.migrate",
          action_class: "write",
          arguments: Object.fromEntries(
            Array.from({ length: 45 }, (_, n) => [`statement_${n}`, `ALTER TABLE orders_${n}`])
          )
        }
      })
      const { page } = yield* openSignedIn(yield* key({}, "print"), `/approvals/${approval_id}`)
      yield* Effect.promise(async () => {
        await page.getByText("ALTER TABLE orders_44").waitFor()
        await page.emulateMedia({ media: "print" })
        assert.isFalse(await page.locator(".list-pane").isVisible())
        assert.isFalse(await page.getByRole("navigation", { name: "Main" }).isVisible())
        assert.isFalse(await page.getByRole("button", { name: /^Reject/ }).isVisible())
        const clipped = await page.evaluate(() =>
          [
            ...document.querySelectorAll(
              ".detail-pane, .inbox-panes, .inbox, #content, .column, .shell, .json"
            )
          ]
            .filter(
              (part) =>
                part.scrollHeight > part.clientHeight + 1 && getComputedStyle(part).overflowY !== "visible"
            )
            .map((part) => part.className)
        )
        assert.deepStrictEqual(clipped, [])
        assert.isAbove(
          await page.evaluate(() => document.documentElement.scrollHeight),
          await page.evaluate(() => document.querySelector(".detail-pane .json")?.scrollHeight ?? Infinity)
        )
      })
    }).pipe(Effect.scoped, Effect.orDie))
})
