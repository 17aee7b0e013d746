import type { Task } from "../../../domain/tasks/Task.ts"
import { Link } from "../../app/router.tsx"
import { refresh } from "../../state/atoms.ts"
import { useKeptDialog } from "../../state/keptWork.ts"
import { useCan } from "../../state/session.ts"
import { datasetsAtom } from "../../state/tasks.ts"
import { Badge } from "../../ui/Badge.tsx"
import { Button } from "../../ui/Button.tsx"
import { FirstRecord } from "../../ui/FirstRecord.tsx"
import { Table } from "../../ui/Table.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { RelativeTime } from "../../ui/Time.tsx"
import { NewExamples, newExamplesOf } from "./NewExamples.tsx"

/** The versions of a task's dataset, newest first, and the button that adds examples. */
export const Datasets = ({ task }: { readonly task: Task }) => {
  const can = useCan()
  const adding = useKeptDialog(newExamplesOf(task.id))
  return (
    <div className="stack">
      {can("datasets.write") ? (
        <div className="change-head">
          <p className="quiet">Versions are immutable. Adding examples creates the next version.</p>
          <Button kind="primary" onClick={adding.open}>
            Add examples
          </Button>
        </div>
      ) : null}
      <PagedList atom={datasetsAtom(task.id)}>
        {(datasets) =>
          datasets.length === 0 ? (
            <div className="card">
              <FirstRecord
                of={({ firstDataset }, origin) => firstDataset(origin, task)}
                look={() => refresh(datasetsAtom(task.id))}
              />
            </div>
          ) : (
            <Table columns={["Version", { name: "Examples", number: true }, "Created", "Content digest"]}>
              {datasets.map((dataset) => (
                <tr key={dataset.id}>
                  <td>
                    <Link to={`/datasets/${dataset.id}`}>Version {dataset.version}</Link>{" "}
                    {dataset.id === task.dataset_id ? <Badge tone="note">Newest</Badge> : null}
                  </td>
                  <td className="number" data-label="examples">
                    {dataset.example_count.toLocaleString("en")}
                  </td>
                  <td>
                    <RelativeTime time={dataset.created_at} /> by{" "}
                    <UntrustedText text={dataset.created_by.name} />
                  </td>
                  <td className="id quiet" title={dataset.content_digest}>
                    {dataset.content_digest.slice(0, 12)}…
                  </td>
                </tr>
              ))}
            </Table>
          )
        }
      </PagedList>
      {adding.isOpen ? <NewExamples task={task} onClose={adding.close} /> : null}
    </div>
  )
}
