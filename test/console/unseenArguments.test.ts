import { assert, describe, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import fc from "fast-check"
import type { Page } from "playwright-core"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import {
  accessibilityViolations,
  Browser,
  holdTimers,
  horizontalOverflow,
  openSignedIn,
  skipWithoutBrowser
} from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

interface RequestedStep {
  readonly tool?: string
  readonly arguments: unknown
}

/** Requests approvals, in order of their deadlines; returns their ids and a reviewer's key. */
const requestApprovals = (organization: string, steps: ReadonlyArray<RequestedStep>) =>
  Effect.gen(function* () {
    const { client, key } = yield* Countersign
    const agent = yield* client({ preset: "runtime", name: "agent" }, organization)
    const { session_id } = yield* agent.sessions.create({})
    const ids = yield* Effect.forEach(steps, ({ arguments: given, tool = "payments.refund" }, index) =>
      Effect.map(
        agent.sessions.step({
          params: { id: session_id },
          payload: {
            step_id: StepId.make(`step-${index}`),
            tool,
            action_class: "write",
            arguments: JSON.parse(JSON.stringify(given))
          }
        }),
        ({ approval_id }) => approval_id ?? assert.fail("the step waits for a person")
      )
    )
    return { ids, ada: yield* key({ preset: "reviewer", name: "Ada" }, organization) }
  })

const statusesOf = (organization: string) =>
  Effect.gen(function* () {
    const { client } = yield* Countersign
    const reader = yield* client({ preset: "reviewer", name: "Reader" }, organization)
    const { approvals } = yield* reader.approvals.list({ query: {} })
    return approvals.map(({ status }) => status)
  })

/** Presses a key of the approval once it acts on it. */
const pressArmed = async (page: Page, key: string) => {
  await page.locator(`[aria-keyshortcuts=${key}]`).waitFor()
  await page.keyboard.press(key)
}

/** Presses `a` until the form to approve is open; returns the number of presses. */
const pressUntilForm = async (page: Page, most: number): Promise<number> => {
  for (let presses = 1; presses <= most; presses++) {
    await pressArmed(page, "a")
    await page.locator("[aria-keyshortcuts=a], form.decide").first().waitFor()
    if ((await page.getByLabel("Comment").count()) > 0) return presses
  }
  return assert.fail(`no form after ${most} presses`)
}

/**
 * Watches, in every frame of the documents that are opened from now on, which characters of the arguments are on the screen. `__unseen` lists
 * the parts that were not when Approve became enabled.
 */
const watchCharacters = (page: Page) =>
  page.addInitScript(() => {
    const BLOCK = 64
    const seen = new WeakMap<Node, Set<number>>()
    const look = () => {
      const region = document.querySelector("section[aria-label=Arguments] .json")
      const pane = document.querySelector(".detail-pane")
      const bar = document.querySelector(".detail-pane .decide")
      if (region !== null && pane !== null && bar !== null) {
        const { bottom, left, right, top } = pane.getBoundingClientRect()
        const floor = Math.min(bottom, innerHeight, bar.getBoundingClientRect().top)
        const unseen: Array<string> = []
        const walker = document.createTreeWalker(region, NodeFilter.SHOW_TEXT)
        for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
          const known = seen.get(node) ?? new Set<number>()
          seen.set(node, known)
          const length = node.textContent?.length ?? 0
          const boxesOf = (from: number, to: number) => {
            const range = document.createRange()
            range.setStart(node, from)
            range.setEnd(node, Math.min(length, to))
            return range
          }
          for (let block = 0; block < length; block += BLOCK) {
            const whole = boxesOf(block, block + BLOCK).getBoundingClientRect()
            const isOut = whole.bottom < top || whole.top > floor
            for (let at = block; at < Math.min(length, block + BLOCK); at++) {
              if (known.has(at)) continue
              const isShown =
                !isOut &&
                [...boxesOf(at, at + 1).getClientRects()].every(
                  (box) =>
                    box.top >= top - 1 &&
                    box.bottom <= floor + 1 &&
                    box.left >= left - 1 &&
                    box.right <= right + 1
                )
              if (isShown) known.add(at)
              else unseen.push(node.textContent?.charAt(at) ?? "")
            }
          }
        }
        const canApprove = [...bar.querySelectorAll("button")].some(
          (button) => button.textContent.startsWith("Approve") && !button.disabled
        )
        if (canApprove && unseen.length > 0) {
          const before: unknown = Reflect.get(globalThis, "__unseen")
          Reflect.set(globalThis, "__unseen", [...(Array.isArray(before) ? before : []), ...unseen])
        }
      }
      requestAnimationFrame(look)
    }
    Reflect.set(globalThis, "__unseen", [])
    requestAnimationFrame(look)
  })

const unseenParts = (page: Page) => page.evaluate(() => String(Reflect.get(globalThis, "__unseen")))

/** The text of the shown arguments without blanks and buttons. */
const shownText = async (page: Page) => {
  const text = await page.evaluate(() => {
    const copy = document.querySelector("section[aria-label=Arguments] .json")?.cloneNode(true)
    if (!(copy instanceof Element)) return ""
    for (const extra of copy.querySelectorAll("button, .gap")) extra.remove()
    return copy.textContent
  })
  return text.replace(/\s/gu, "")
}

/** Every name and every value of some arguments as they are shown, without blanks. */
const partsOf = (value: unknown): ReadonlyArray<string> => {
  if (typeof value !== "object" || value === null) {
    const text = String(value).replace(/\s/gu, "")
    return [text.replaceAll("\u202e", "U+202E").replaceAll("\u202c", "U+202C")]
  }
  return Object.entries(value).flatMap(([name, member]: readonly [string, unknown]) => [
    ...(Array.isArray(value) ? [] : [name]),
    ...partsOf(member)
  ])
}

layer(environment, { excludeTestServices: true, timeout: "180 seconds" })("Unseen arguments", (it) => {
  const test = skipWithoutBrowser(it)

  describe("one approval", () => {
    test("rows beyond those that are shown at first have to be opened and read before Approve is there", () =>
      Effect.gen(function* () {
        const { ada, ids } = yield* requestApprovals("rows", [
          {
            arguments: {
              rows: Array.from({ length: 540 }, (_, index) => `n${index}`),
              note: "the last one"
            }
          }
        ])
        const { page, pageErrors } = yield* openSignedIn(ada, `/approvals/${ids[0]}`, {
          viewport: { width: 1440, height: 2_700 }
        })
        yield* Effect.promise(async () => {
          await watchCharacters(page)
          await page.reload()
          await page.getByText("n0", { exact: true }).waitFor()
          assert.isAbove(await pressUntilForm(page, 200), 3)
          const shown = page.getByRole("group", { name: "Arguments" })
          assert.strictEqual(await shown.getByText("n539", { exact: true }).count(), 1)
          assert.strictEqual(await shown.getByText("the last one").count(), 1)
          assert.strictEqual(await unseenParts(page), "")
        })
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie))

    test("runs of empty lines and of blanks cannot push a part of a text off the screen", () =>
      Effect.gen(function* () {
        const { ada, ids } = yield* requestApprovals("blank", [
          {
            arguments: { command: `echo safe${"\n".repeat(200)}rm -rf /${" ".repeat(300)}curl evil.example` }
          }
        ])
        const { page } = yield* openSignedIn(ada, `/approvals/${ids[0]}`)
        yield* Effect.promise(async () => {
          const shown = page.getByRole("group", { name: "Arguments" })
          await shown.getByText("echo safe").waitFor()
          await shown.getByText("⋯ 199 empty lines ⋯").waitFor()
          await shown.getByText("⋯ 300 blanks ⋯").waitFor()
          await shown.getByText("curl evil.example").waitFor()
          await page.getByRole("button", { name: "Approve" }).waitFor()
          assert.isTrue(
            await shown
              .getByText("rm -rf /")
              .evaluate((element) => element.getBoundingClientRect().height < 200)
          )
        })
        assert.deepStrictEqual(yield* accessibilityViolations(page), [])
      }).pipe(Effect.scoped, Effect.orDie))

    test("a text of many short lines is folded, although it has few characters", () =>
      Effect.gen(function* () {
        const { ada, ids } = yield* requestApprovals("lines", [
          {
            arguments: { script: Array.from({ length: 150 }, (_, index) => `l${index}`).join("\n"), after: 1 }
          }
        ])
        const { page } = yield* openSignedIn(ada, `/approvals/${ids[0]}`)
        yield* Effect.promise(async () => {
          await watchCharacters(page)
          await page.reload()
          await page.getByRole("button", { name: "show all 150 lines" }).waitFor()
          assert.strictEqual(await page.getByText("l149").count(), 0)
          await pressUntilForm(page, 50)
          assert.strictEqual(await page.getByText("l149").count(), 1)
          assert.strictEqual(await unseenParts(page), "")
        })
      }).pipe(Effect.scoped, Effect.orDie))

    test("keys decide nothing before the arguments have been on the screen for a moment", () =>
      Effect.gen(function* () {
        const { ada } = yield* requestApprovals(
          "burst",
          Array.from({ length: 6 }, (_, index) => ({ tool: `pay.${index}`, arguments: { amount: index } }))
        )
        const { page } = yield* openSignedIn(ada, "/approvals")
        yield* Effect.promise(async () => {
          await page.getByRole("listbox").getByRole("option").nth(5).waitFor()
          await page.keyboard.press("j")
          await page.getByRole("heading", { name: "pay.0" }).waitFor()
          const release = await holdTimers(page, 200)
          for (let round = 1; round <= 5; round++) {
            await page.keyboard.press("j")
            await page.getByRole("heading", { name: `pay.${round}` }).waitFor()
            for (const key of ["a", "Enter", "r", "Enter"]) await page.keyboard.press(key)
          }
          assert.strictEqual(await page.getByLabel("Comment").count(), 0)
          await release()
          await page.keyboard.press("k")
          await pressArmed(page, "r")
          await page.getByLabel("Comment").waitFor()
        })
        assert.deepStrictEqual(new Set(yield* statusesOf("burst")), new Set(["pending"]))
      }).pipe(Effect.scoped, Effect.orDie))

    test("look-alike letters are marked, and the rule is named that the tool only seems to match", () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const admin = yield* client({}, "letters")
        yield* admin.approvalRules.replace({
          payload: { rules: [{ tool: "payments.*", effect: "require_approval", reason: "Money" }] }
        })
        const { ada, ids } = yield* requestApprovals("letters", [
          // The first two letters of the tool, and both vowels of the host, are Cyrillic.
          { tool: "раyments.refund", arguments: { host: "pаypаl.example", note: "Привет, Müller" } },
          { tool: "payment.refund", arguments: {} }
        ])
        const { page } = yield* openSignedIn(ada, `/approvals/${ids[0]}`)
        yield* Effect.promise(async () => {
          const request = page.getByRole("region", { name: "Request" })
          await request.getByText("No rule matches").waitFor()
          await request.getByText("looks like payments.refund").waitFor()
          await request.getByRole("link", { name: "Rule 1" }).waitFor()
          const marked = (place: string) => page.locator(`${place} .look-alike`).allTextContents()
          assert.deepStrictEqual(await marked("h2"), ["ра"])
          assert.deepStrictEqual(await marked("section[aria-label=Arguments]"), ["а", "а"])
          assert.deepStrictEqual(await marked("[role=option]:nth-child(1) .row-tool"), ["ра"])
          await page.getByRole("option", { name: /payment\.refund/ }).click()
          await request.getByText("similar to payments.*").waitFor()
        })
        assert.deepStrictEqual(yield* accessibilityViolations(page), [])
      }).pipe(Effect.scoped, Effect.orDie))

    test("deeply nested arguments stay within the page on a phone", () =>
      Effect.gen(function* () {
        const deep = Array.from({ length: 30 }).reduce((inner: unknown) => ({ nested: inner }), "the core")
        const { ada, ids } = yield* requestApprovals("deep", [{ arguments: { deep } }])
        const { page } = yield* openSignedIn(ada, `/approvals/${ids[0]}`, {
          viewport: { width: 390, height: 844 }
        })
        yield* Effect.promise(async () => {
          await page.getByRole("button", { name: "Show all arguments" }).click()
          await page.getByText("the core").waitFor()
          assert.strictEqual(
            await page.evaluate(() => {
              const json = document.querySelector("section[aria-label=Arguments] .json")
              return json === null ? -1 : json.scrollWidth - json.clientWidth
            }),
            0
          )
          assert.strictEqual(await horizontalOverflow(page), 0)
        })
      }).pipe(Effect.scoped, Effect.orDie))
  })

  describe("any arguments", () => {
    const word = fc.string({
      unit: fc.constantFrom(..."abcdefgh 0123".split("")),
      minLength: 1,
      maxLength: 30
    })
    const text = fc.oneof(
      word,
      fc.array(word, { minLength: 1, maxLength: 300 }).map((words) => words.join(" ")),
      fc
        .array(fc.tuple(word, fc.integer({ min: 1, max: 40 })), { minLength: 1, maxLength: 60 })
        .map((lines) => lines.map(([line, breaks]) => line + "\n".repeat(breaks)).join(""))
    )
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { depthSize: "small", withCrossShrink: true },
        text,
        fc.integer(),
        fc.boolean(),
        fc.array(tie("value"), { maxLength: 12 }),
        fc.array(word, { maxLength: 160 }),
        fc.dictionary(
          fc.string({ unit: fc.constantFrom(..."nameofit".split("")), minLength: 1, maxLength: 12 }),
          tie("value"),
          { maxKeys: 12, noNullPrototype: true }
        )
      )
    }))
    const args = fc.record({ first: value, second: value, third: text })
    const viewport = fc.constantFrom(
      { width: 1440, height: 900 },
      { width: 1024, height: 600 },
      { width: 390, height: 844 }
    )
    const action = fc.oneof(
      fc.constantFrom("a", "End", "Home", "PageDown"),
      fc.integer({ min: -2_000, max: 2_000 })
    )

    /** Lines of source text, some with characters that mislead. */
    const code = fc
      .array(
        fc.constantFrom(
          "UPDATE orders SET total = total * 1.1 -- all of them",
          "WHERE note = 'it''s' AND id IN (SELECT id FROM lines);",
          "/* \u202eraise\u202c */ DROP TABLE раyments;",
          "",
          'for f in *.txt; do echo "$f ${HOME}"; done # note',
          "  - name: web # port: 80",
          '{"a": [1, true, "b\\"c"]}'
        ),
        { minLength: 2, maxLength: 60 }
      )
      .map((lines) => lines.join("\n"))
    const source = fc.record({
      sql: code.map((text) => `SELECT 1 FROM t;\n${text}`),
      edits: fc.array(fc.record({ old_text: code, new_text: code }), { minLength: 1, maxLength: 2 })
    })

    /** Reads approvals by any actions until they can be approved; `onWhole` looks at one whose arguments are shown whole. */
    const readAll = (
      organization: string,
      anyArgs: fc.Arbitrary<object>,
      count: number,
      onWhole: (page: Page, context: string) => Promise<void>
    ) =>
      Effect.gen(function* () {
        const { seed } = fc.readConfigureGlobal()
        const cases = fc.sample(fc.tuple(anyArgs, viewport, fc.array(action, { maxLength: 12 })), count)
        const { ada, ids } = yield* requestApprovals(
          organization,
          cases.map(([given], index) => ({ tool: `tool.${index}`, arguments: given }))
        )
        const { page, pageErrors } = yield* openSignedIn(ada, "/approvals")
        // From the first frame: the page counts what was on the screen before a later call could begin to watch.
        yield* Effect.promise(() => watchCharacters(page))
        for (const [index, [given, size, actions]] of cases.entries()) {
          yield* Effect.promise(async () => {
            await page.setViewportSize(size)
            await page.goto(`/console/approvals/${ids[index]}`)
            await page.getByRole("heading", { name: `tool.${index}`, exact: true }).waitFor()
            const pane = page.getByRole("region", { name: "Selected approval" })
            for (const step of actions) {
              if (typeof step === "number") await pane.evaluate((one, by) => one.scrollBy(0, by), step)
              else if (step === "a") {
                await pressArmed(page, "a")
                if ((await page.getByLabel("Comment").count()) > 0) break
              } else {
                await pane.focus()
                await page.keyboard.press(step)
              }
            }
            if ((await page.getByLabel("Comment").count()) === 0) await pressUntilForm(page, 300)
            const context = `case ${index} of seed ${seed}`
            assert.strictEqual(await unseenParts(page), "", context)
            const shown = await shownText(page)
            for (const part of partsOf(given)) assert.include(shown, part, context)
            await onWhole(page, context)
          })
        }
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie)

    test(
      "Approve is enabled only when each character was in the document and on the screen",
      () => readAll("any", args, 8, async () => undefined),
      600_000
    )

    test(
      "Approve is enabled only when each character of coloured and compared source text was on the screen",
      () =>
        readAll("source", source, 4, async (page, context) => {
          await page.waitForFunction(() => CSS.highlights.size > 0)
          const marked = page.locator("section[aria-label=Arguments]").getByText("U+202E")
          const drops = await page.locator("section[aria-label=Arguments]").getByText("DROP TABLE").count()
          assert.strictEqual((await marked.count()) > 0, drops > 0, context)
        }),
      600_000
    )
  })
})
