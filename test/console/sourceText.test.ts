import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Page } from "playwright-core"
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

/** Submits steps of one session in order; returns the approvals' ids and a reviewer's key. */
const request = Effect.fnUntraced(function* (organization: string, steps: ReadonlyArray<object>) {
  const { client, key } = yield* Countersign
  const agent = yield* client({ preset: "runtime" }, organization)
  const { session_id } = yield* agent.sessions.create({})
  const ids = yield* Effect.forEach(steps, (given, index) =>
    Effect.map(
      agent.sessions.step({
        params: { id: session_id },
        payload: {
          step_id: StepId.make(`edit-${index + 1}`),
          tool: "files.edit",
          action_class: "write",
          arguments: JSON.parse(JSON.stringify(given))
        }
      }),
      ({ approval_id }) => approval_id ?? assert.fail("the step waits")
    )
  )
  return { ids, ada: yield* key({ preset: "reviewer", name: "Ada" }, organization) }
})

const argumentsOf = (page: Page) => page.getByRole("group", { name: "Arguments" })

/** The painted parts of each kind. */
const paintedParts = (page: Page): Promise<Record<string, ReadonlyArray<string>>> =>
  page.evaluate(() =>
    Object.fromEntries(
      [...CSS.highlights].map(([name, ranges]) => [
        name,
        [...ranges].map((range) => {
          const { endOffset, startContainer, startOffset } = range
          return startContainer.textContent?.slice(startOffset, endOffset) ?? ""
        })
      ])
    )
  )

const source = {
  sql: "-- raise\nUPDATE orders SET total = 12 WHERE name = 'Ада'",
  body: '{"to": "pаypal", "amount": 5}',
  command: 'rm -rf "$HOME/old" # clean\u202e up',
  manifest: "kind: Pod\nspec:\n  port: 80 # http"
}

layer(environment, { excludeTestServices: true, timeout: "180 seconds" })(
  "Source text in arguments",
  (it) => {
    const test = skipWithoutBrowser(it)

    test("is coloured by its language, and marks of misleading characters keep their colour", () =>
      Effect.gen(function* () {
        const { ada, ids } = yield* request("colours", [source])
        const { page, pageErrors } = yield* openSignedIn(ada, `/approvals/${ids[0]}`)
        const painted = yield* Effect.promise(async () => {
          await page.waitForFunction(() => CSS.highlights.size === 5)
          return paintedParts(page)
        })
        assert.includeMembers([...(painted["code-keyword"] ?? [])], ["UPDATE", "SET", "WHERE", "rm"])
        assert.includeMembers([...(painted["code-name"] ?? [])], [`"to"`, `"amount"`, "kind", "port"])
        assert.includeMembers([...(painted["code-comment"] ?? [])], ["-- raise", "# http", "# clean", " up"])
        assert.includeMembers([...(painted["code-value"] ?? [])], ["12", "5", "80"])
        // The look-alike letter is not painted with the text around it.
        assert.includeMembers([...(painted["code-string"] ?? [])], [`"p`, `ypal"`, "'Ада'"])
        yield* Effect.promise(async () => {
          assert.deepStrictEqual(await argumentsOf(page).locator(".look-alike").allTextContents(), ["а"])
          assert.deepStrictEqual(await argumentsOf(page).locator(".hidden-character").allTextContents(), [
            "U+202E"
          ])
        })
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie))

    test("is the same document with colours and in a browser without them", () =>
      Effect.gen(function* () {
        const { ada, ids } = yield* request("document", [source])
        const { page } = yield* openSignedIn(ada, `/approvals/${ids[0]}`)
        const html = () =>
          page.locator("section[aria-label=Arguments] .json").evaluate((element) => element.outerHTML)
        yield* Effect.promise(async () => {
          await page.waitForFunction(() => CSS.highlights.size === 5)
          const coloured = await html()
          await page.addInitScript(() => Reflect.deleteProperty(CSS, "highlights"))
          await page.reload()
          await argumentsOf(page).getByText("UPDATE orders").waitFor()
          assert.isFalse(await page.evaluate(() => "highlights" in CSS))
          assert.strictEqual(await html(), coloured)
        })
      }).pipe(Effect.scoped, Effect.orDie))

    test("loses its colours when it leaves the page, and loads nothing for plain arguments", () =>
      Effect.gen(function* () {
        const { ada, ids } = yield* request("loading", [{ order: "4711", amount: 12 }, source])
        const { page } = yield* openSignedIn(ada, `/approvals/${ids[0]}`)
        const requests: Array<string> = []
        page.on("request", (sent) => requests.push(sent.url()))
        yield* Effect.promise(async () => {
          await page.reload()
          await page.getByText("4711").first().waitFor()
          await page.waitForLoadState("networkidle")
          const isCode = (url: string) => /paintCode|TextChanges/.test(url)
          assert.deepStrictEqual(requests.filter(isCode), [])
          await page.keyboard.press("j")
          await page.waitForFunction(() => CSS.highlights.size === 5)
          assert.isTrue(requests.some(isCode))
          await page.keyboard.press("k")
          await page.getByText("4711").first().waitFor()
          await page.waitForFunction(() => [...CSS.highlights.values()].every(({ size }) => size === 0))
        })
      }).pipe(Effect.scoped, Effect.orDie))

    test("stays readable and can be decided if its colours and comparison cannot be loaded", () =>
      Effect.gen(function* () {
        const { ada, ids } = yield* request("broken", [source])
        const { page } = yield* openSignedIn(ada, "/approvals")
        yield* Effect.promise(async () => {
          await page.route(/paintCode|TextChanges/, (route) => route.abort())
          await page.goto(`/console/approvals/${ids[0]}`)
          await page.getByText("The comparison of changed texts could not be loaded.").waitFor()
          await argumentsOf(page).getByText("UPDATE orders").waitFor()
          await page
            .getByRole("button", { name: /^(?:Approve|Show)/ })
            .first()
            .waitFor()
          assert.strictEqual(await page.evaluate(() => CSS.highlights.size), 0)
        })
      }).pipe(Effect.scoped, Effect.orDie))

    test("shows the lines that it changes, beside it or since an earlier step", () =>
      Effect.gen(function* () {
        const config = (port: number) => `server:\n  port: ${port}\n  host: a\n  tls: true`
        const { ada, ids } = yield* request("changes", [
          { file: "a.yaml", content: config(80) },
          { file: "a.yaml", content: config(8080) },
          { edits: [{ old_string: config(1), new_string: config(2).replace("true", "fa\u202else") }] }
        ])
        const { page, pageErrors } = yield* openSignedIn(ada, `/approvals/${ids[1]}`)
        const changes = page.getByRole("region", { name: "Changed texts" })
        yield* Effect.promise(async () => {
          await changes.getByText("compared with the step edit-1").waitFor()
          assert.deepStrictEqual(await changes.getByRole("listitem").allTextContents(), [
            "server:",
            "−Removed:   port: 80",
            "+Added:   port: 8080",
            "  host: a",
            "  tls: true"
          ])
          await page.goto(`/console/approvals/${ids[2]}`)
          await changes.getByText("edits.0.new_string compared with edits.0.old_string").waitFor()
          assert.deepStrictEqual(await changes.locator(".added").allTextContents(), [
            "+Added:   port: 2",
            "+Added:   tls: faU+202Else"
          ])
          await page.goto(`/console/approvals/${ids[0]}`)
          await page.getByText("Nobody has decided about this tool yet").waitFor()
          assert.strictEqual(await changes.count(), 0)
        })
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie))

    test("is legible and accessible at each size, in both themes", () =>
      Effect.gen(function* () {
        const { ada, ids } = yield* request("looks", [
          { ...source, edits: [{ old_string: "a\nb", new_string: `a\n${"c".repeat(200)}` }] }
        ])
        for (const colorScheme of ["light", "dark"] as const) {
          for (const [width, height] of [
            [1440, 900],
            [1024, 768],
            [390, 844]
          ] as const) {
            const { page } = yield* openSignedIn(ada, `/approvals/${ids[0]}`, {
              colorScheme,
              viewport: { width, height }
            })
            yield* Effect.promise(async () => {
              await page.waitForFunction(() => CSS.highlights.size === 5)
              await page.getByRole("region", { name: "Changed texts" }).waitFor()
              assert.strictEqual(await horizontalOverflow(page), 0)
              const contrasts = await page.evaluate(() => {
                const box = document.querySelector("section[aria-label=Arguments] .json")
                const text = box?.querySelector(".untrusted")
                if (box === null || text === null || text === undefined) return []
                const luminance = (color: string) => {
                  const [red = 0, green = 0, blue = 0] = (color.match(/[\d.]+/g) ?? []).map((part) => {
                    const share = Number(part) / 255
                    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
                  })
                  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
                }
                const back = luminance(getComputedStyle(box).backgroundColor)
                return [...CSS.highlights.keys()].map((name) => {
                  const front = luminance(getComputedStyle(text, `::highlight(${name})`).color)
                  return (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05)
                })
              })
              assert.lengthOf(contrasts, 5)
              // Names have the colour of keywords.
              assert.strictEqual(new Set(contrasts).size, 4)
              for (const contrast of contrasts) assert.isAtLeast(contrast, 4.5)
            })
            assert.deepStrictEqual(yield* accessibilityViolations(page), [])
          }
        }
      }).pipe(Effect.scoped, Effect.orDie))
  }
)
