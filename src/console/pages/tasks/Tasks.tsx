import type { TaskId } from "../../../domain/Ids.ts"
import { Link } from "../../app/router.tsx"
import { pagesOf } from "../../state/pages.ts"
import { service } from "../../state/service.ts"
import { Empty } from "../../ui/Empty.tsx"
import { PageHead } from "../../ui/PageHead.tsx"
import { Pages } from "../../ui/Pages.tsx"
import { Safe } from "../../ui/Safe.tsx"
import { Ago } from "../../ui/Time.tsx"

export const tasksAtom = pagesOf(
  (cursor: TaskId | undefined) => service.tasks.list({ query: cursor === undefined ? {} : { cursor } }),
  "tasks"
)

/** What an AI is asked over and over. */
export default function Tasks() {
  return (
    <>
      <PageHead title="Tasks">Each with its dataset, its comparisons and what is live.</PageHead>
      <Pages atom={tasksAtom}>
        {(tasks) =>
          tasks.length === 0 ? (
            <Empty title="No task yet">
              A task is made with <code>POST /v1/tasks</code>: its shapes, its instructions, and who answers.
            </Empty>
          ) : (
            <div className="card table-scroll">
              <table className="table">
                <thead>
                  <tr>
                    <th scope="col">Task</th>
                    <th scope="col">Answered by</th>
                    <th scope="col">Dataset</th>
                    <th scope="col">Made</th>
                  </tr>
                </thead>
                <tbody>
                  {tasks.map((task) => (
                    <tr key={task.id}>
                      <td>
                        <Link to={`/tasks/${task.id}`}>
                          <Safe text={task.name} />
                        </Link>
                        <div className="id quiet">{task.id}</div>
                      </td>
                      <td>
                        {task.provider.kind === "examples" ? (
                          "the nearest example"
                        ) : (
                          <Safe text={task.provider.model} />
                        )}
                      </td>
                      <td>
                        {task.dataset_id === null ? (
                          <span className="quiet">none yet</span>
                        ) : (
                          <Link to={`/datasets/${task.dataset_id}`}>newest version</Link>
                        )}
                      </td>
                      <td>
                        <Ago time={task.created_at} />
                        <div className="quiet small">
                          by <Safe text={task.created_by.name} />
                        </div>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Pages>
    </>
  )
}
