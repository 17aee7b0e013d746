import { Link } from "../../app/router.tsx"
import { useCan } from "../../state/session.ts"
import { tasksAtom } from "../../state/tasks.ts"
import { Empty } from "../../ui/Empty.tsx"
import { Listed } from "../../ui/Listed.tsx"
import { PageHead } from "../../ui/PageHead.tsx"
import { Pages } from "../../ui/Pages.tsx"
import { Safe } from "../../ui/Safe.tsx"
import { Ago } from "../../ui/Time.tsx"

/** What an AI is asked over and over. */
export default function Tasks() {
  const can = useCan()
  return (
    <>
      <PageHead
        title="Tasks"
        aside={
          can("tasks.write") ? (
            <Link className="button primary" to="/tasks/new">
              New task
            </Link>
          ) : null
        }
      >
        Each with its dataset, its comparisons and what is live.
      </PageHead>
      <Pages atom={tasksAtom}>
        {(tasks) =>
          tasks.length === 0 ? (
            <div className="card">
              <Empty title="No task yet">
                A task is a question that an AI is asked over and over: the shapes of its inputs and answers,
                and who answers.
              </Empty>
            </div>
          ) : (
            <Listed columns={["Task", "Answered by", "Dataset", "Made"]}>
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
                    ) : can("datasets.read") ? (
                      <Link to={`/datasets/${task.dataset_id}`}>newest version</Link>
                    ) : (
                      "one or more versions"
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
            </Listed>
          )
        }
      </Pages>
    </>
  )
}
