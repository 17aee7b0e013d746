import { Atom } from "effect/reactivity"
import { useEffect, useRef } from "react"
import { type Comparison, ComparisonVerdict } from "../../../domain/tasks/Comparison.ts"
import { type ComparisonId, ExampleId } from "../../../domain/Ids.ts"
import { apiClient } from "../../state/apiClient.ts"
import { refresh, registry, useAtomValue } from "../../state/atoms.ts"
import { hasMorePages, loadedItems, pagedAtom } from "../../state/pagedAtom.ts"
import { defineQuery } from "../../state/queryState.ts"
import { useCan } from "../../state/session.ts"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { Tabs } from "../../ui/Tabs.tsx"
import { useKeyboardShortcuts } from "../../ui/useKeyboardShortcuts.ts"
import { useQueryState } from "../../ui/useQueryState.ts"
import { ResultCard } from "./ResultCard.tsx"

const parameters = defineQuery({
  verdict: ComparisonVerdict,
  /** The example whose answers are shown. */
  example: ExampleId
})

/** The results of a comparison with a verdict, or all of them; newest example first. */
const resultsAtom = Atom.family(
  ({ id, verdict }: { readonly id: ComparisonId; readonly verdict: ComparisonVerdict | undefined }) =>
    pagedAtom(
      (cursor: ExampleId | undefined) =>
        apiClient.comparisons.get({
          params: { id },
          query: {
            limit: 20,
            ...(verdict === undefined ? {} : { verdict }),
            ...(cursor === undefined ? {} : { cursor })
          }
        }),
      "results"
    )
)

const tabs = [
  ["all", "All"],
  ["win", "Fixed"],
  ["regression", "Broken"],
  ["neither_agrees", "Both wrong"],
  ["both_agree", "Both right"]
] as const

/**
 * The examples of a comparison by what became of them, with both answers. The tab and the example that is open are in the address; `j` and
 * `k` go through the examples of the tab.
 */
export const ComparisonResults = ({ comparison }: { readonly comparison: Comparison }) => {
  const { compared, id, status, summary } = comparison
  const canReadContents = useCan()("datasets.read")
  const [{ example, verdict }, setQuery] = useQueryState(parameters)
  const atom = resultsAtom({ id, verdict })
  const list = useAtomValue(atom)
  const results = loadedItems(list)
  const isRunning = status === "running"
  useEffect(() => {
    if (!isRunning) refresh(atom)
  }, [atom, isRunning])
  const open = (next: ExampleId | undefined) => setQuery({ example: next }, { replace: true })
  /** Whether a key opens the example: then the focus follows, so that it is read next. */
  const isMoving = useRef(false)
  const move = (by: number) => {
    const at = results.findIndex((result) => result.example_id === example)
    const to = at < 0 ? (by > 0 ? 0 : results.length - 1) : at + by
    const next = results[Math.max(to, 0)]
    if (next === undefined) {
      // The next page; the key moves on once it is there.
      if (hasMorePages(list)) registry.set(atom, undefined)
      return
    }
    isMoving.current = true
    open(next.example_id)
  }
  useEffect(() => {
    if (example === undefined) return
    const card = document.querySelector<HTMLElement>(`[data-example="${example}"]`)
    card?.scrollIntoView({ block: "nearest" })
    if (isMoving.current) card?.querySelector<HTMLElement>("button")?.focus({ preventScroll: true })
    isMoving.current = false
  }, [example])
  useKeyboardShortcuts({
    j: () => move(1),
    k: () => move(-1),
    Escape: () => open(undefined)
  })
  return (
    <section className="stack" aria-label="Examples">
      <div className="change-head">
        <h2>Examples</h2>
        <Tabs
          label="Result"
          selected={verdict ?? "all"}
          onSelect={(name) => setQuery({ verdict: name === "all" ? undefined : name, example: undefined })}
          options={tabs.map(([name, text]) => [
            name,
            `${text} ${(name === "all" ? compared : summary.verdicts[name]).toLocaleString("en")}`
          ])}
        />
      </div>
      {canReadContents ? null : (
        <p className="notice">
          Inputs and answers are not shown: this key does not have the scope <code>datasets.read</code>.
        </p>
      )}
      <p className="quiet small">
        Fixed: only the candidate is right. Broken: only the live release is. <kbd>j</kbd> and <kbd>k</kbd>{" "}
        open the next and the previous example.
      </p>
      <PagedList key={verdict ?? "all"} atom={atom}>
        {(shown) =>
          shown.length === 0 ? (
            <EmptyState title={verdict === undefined ? "No results yet" : "No such results"} />
          ) : (
            <ul className="cards">
              {shown.map((result) => (
                <ResultCard
                  key={result.example_id}
                  result={result}
                  open={result.example_id === example}
                  onToggle={() => open(result.example_id === example ? undefined : result.example_id)}
                />
              ))}
            </ul>
          )
        }
      </PagedList>
    </section>
  )
}
