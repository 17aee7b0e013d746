import { Atom } from "effect/reactivity"
import type { DatasetId, TaskId } from "../../../domain/Ids.ts"
import type { Task } from "../../../domain/Task.ts"
import { Link } from "../../app/router.tsx"
import { pagesOf } from "../../state/pages.ts"
import { service } from "../../state/service.ts"
import { Badge } from "../../ui/Badge.tsx"
import { Empty } from "../../ui/Empty.tsx"
import { Pages } from "../../ui/Pages.tsx"
import { Safe } from "../../ui/Safe.tsx"
import { Ago } from "../../ui/Time.tsx"

export const datasetsAtom = Atom.family((task_id: TaskId) =>
  pagesOf(
    (cursor: DatasetId | undefined) =>
      service.datasets.list({ params: { task_id }, query: cursor === undefined ? {} : { cursor } }),
    "datasets"
  )
)

/** The versions of a task's dataset, newest first. */
export const Datasets = ({ task }: { readonly task: Task }) => (
  <Pages atom={datasetsAtom(task.id)}>
    {(datasets) =>
      datasets.length === 0 ? (
        <Empty title="No version yet">
          The first is made from examples, or by promoting corrections of answers.
        </Empty>
      ) : (
        <div className="card table-scroll">
          <table className="table">
            <thead>
              <tr>
                <th scope="col">Version</th>
                <th scope="col" className="number">
                  Examples
                </th>
                <th scope="col">Made</th>
                <th scope="col">Content</th>
              </tr>
            </thead>
            <tbody>
              {datasets.map((dataset) => (
                <tr key={dataset.id}>
                  <td>
                    <Link to={`/datasets/${dataset.id}`}>Version {dataset.version}</Link>{" "}
                    {dataset.id === task.dataset_id ? <Badge tone="note">newest</Badge> : null}
                  </td>
                  <td className="number">{dataset.example_count.toLocaleString("en")}</td>
                  <td>
                    <Ago time={dataset.created_at} /> by <Safe text={dataset.created_by.name} />
                  </td>
                  <td className="id quiet" title={dataset.content_digest}>
                    {dataset.content_digest.slice(0, 12)}…
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )
    }
  </Pages>
)
