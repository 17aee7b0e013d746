/** The search over all records. */
import { Effect } from "effect"
import { Atom } from "effect/reactivity"
import type { SearchKind } from "../../api/console/Search.ts"
import { consoleClient } from "./consoleClient.ts"
import { pagedAtom } from "./pagedAtom.ts"

/** The name of each kind, of one record and of several. */
export const searchKinds: Readonly<Record<SearchKind, readonly [one: string, several: string]>> = {
  approval: ["Approval", "Approvals"],
  session: ["Session", "Sessions"],
  task: ["Task", "Tasks"],
  run: ["Run", "Runs"],
  feedback: ["Feedback", "Feedback"],
  dataset: ["Dataset", "Datasets"],
  comparison: ["Comparison", "Comparisons"],
  release: ["Release", "Releases"],
  grant: ["Grant", "Grants"],
  endpoint: ["Endpoint", "Endpoints"],
  delivery: ["Delivery", "Deliveries"],
  key: ["API key", "API keys"]
}

/** The first results of every kind. */
export const find = (text: string) => consoleClient.search.find({ query: { text } })

export const foundAtom = Atom.family((text: string) => Atom.make(find(text)))

/** The results of one kind, newest first. */
export const foundOfKindAtom = Atom.family(
  ({ kind, text }: { readonly kind: SearchKind; readonly text: string }) =>
    pagedAtom(
      (cursor: string | undefined) =>
        Effect.map(
          consoleClient.search.find({ query: { text, kind, ...(cursor === undefined ? {} : { cursor }) } }),
          ({ groups: [group] }) => ({
            results: group?.results ?? [],
            next_cursor: group?.next_cursor ?? null
          })
        ),
      "results"
    )
)

/** The start of a record's JSON as a line of text. It may be cut off, so that it cannot be parsed. */
export const detailText = (detail: string): string =>
  detail.startsWith("{") || detail.startsWith("[")
    ? detail
        // A colon in a text, such as that of a time, has no quote before it.
        .replaceAll(/":(?=\S)/gu, ": ")
        .replaceAll(/,(?=\S)/gu, ", ")
        .replaceAll(/[{}[\]"]+/gu, "")
    : detail
