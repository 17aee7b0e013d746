import { Atom } from "effect/reactivity"
import type { DatasetId } from "../../../domain/Ids.ts"
import { Link } from "../../app/router.tsx"
import { consoleClient } from "../../state/consoleClient.ts"
import { useCan } from "../../state/session.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { Badge } from "../../ui/Badge.tsx"
import { Diff } from "../../ui/Diff.tsx"
import { JsonTree } from "../../ui/JsonTree.tsx"

const changesAtom = Atom.family(({ id, since }: { readonly id: DatasetId; readonly since: DatasetId }) =>
  Atom.make(consoleClient.dataset_changes.get({ params: { id }, query: { since } }))
)

/** The differences of a dataset version from an earlier one: their number, and the newest of them. */
export const DatasetDifferences = ({ id, since }: { readonly id: DatasetId; readonly since: DatasetId }) => {
  const atom = changesAtom({ id, since })
  return (
    <AsyncContent atom={atom}>
      {({ added, changes, removed, replaced }) => (
        <>
          <p>
            <Badge tone="good">{added.toLocaleString("en")} added</Badge>{" "}
            <Badge tone="note">{replaced.toLocaleString("en")} replaced</Badge>
            {removed === 0 ? null : <Badge tone="bad">{removed.toLocaleString("en")} removed</Badge>}
            {changes.length < added + replaced + removed ? (
              <span className="quiet"> · showing the newest {changes.length}</span>
            ) : null}
          </p>
          <h2 className="visually-hidden">Differences</h2>
          <ul className="cards">
            {changes.map(({ after, before }) => (
              <li key={after?.id ?? before?.id} className="card padded stack">
                <div className="change-head">
                  <h3>Input</h3>
                  {before === null ? (
                    <Badge tone="good">Added</Badge>
                  ) : after === null ? (
                    <Badge tone="bad">Removed</Badge>
                  ) : (
                    <Badge tone="note">Replaced</Badge>
                  )}
                </div>
                <JsonTree label="Input" value={(after ?? before)?.input} />
                {before === null || after === null ? (
                  <>
                    <h3>Answer</h3>
                    <JsonTree label="Answer" value={(after ?? before)?.answer} />
                  </>
                ) : (
                  <Diff before={before.answer} after={after.answer} beforeTitle="Before" afterTitle="After" />
                )}
                <ExampleSource id={after?.source_feedback_id ?? null} />
              </li>
            ))}
          </ul>
        </>
      )}
    </AsyncContent>
  )
}

/** Where an example comes from. */
export const ExampleSource = ({ id }: { readonly id: string | null }) => {
  const can = useCan()
  return id === null ? null : (
    <p className="quiet small">
      Source:{" "}
      {can("feedback.read") ? (
        <Link to={`/feedback/${id}`}>promoted correction</Link>
      ) : (
        <span className="id">{id}</span>
      )}
    </p>
  )
}
