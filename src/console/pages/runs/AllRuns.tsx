import { PageHeader } from "../../ui/PageHeader.tsx"
import { RunList } from "./RunList.tsx"

/** The runs of all tasks. */
export default function AllRuns() {
  return (
    <>
      <PageHeader title="Runs">The inputs of tasks with their answers, newest first.</PageHeader>
      <RunList />
    </>
  )
}
