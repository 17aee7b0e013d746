/**
 * Simulates reviewer models: how long one goes on deciding after its quality falls, and how many decisions each bound saves against the
 * false approvals that it lets through. No service, no model: the decisions are those of `reviewerStanding`, the answers are drawn.
 */
import { seededRandom } from "../../test/support/breakingProxy.ts"
import {
  RECENT_APPROVALS,
  type ReviewerCounts,
  reviewerStanding
} from "../../src/domain/approvals/Reviewer/reviewerStanding.ts"

/** Runs of each row of the falls, and of the curve. */
const RUNS = 100
const CURVE_RUNS = 10

/** The share of steps that people approve. */
const APPROVED_BY_PEOPLE = 0.85

interface Terms {
  readonly min_lower_bound: number
  readonly max_false_approvals: number
}

/** How a model answers: the share of steps that people approve and it rejects, and of those that people reject and it approves. */
interface Quality {
  readonly falseRejections: number
  readonly falseApprovals: number
  /** The share of all steps about which it is unsure. */
  readonly unsure: number
}

type Random = () => number

const draw = (random: Random, { falseApprovals, falseRejections, unsure }: Quality) => {
  const verdict = random() < APPROVED_BY_PEOPLE ? ("approve" as const) : ("reject" as const)
  if (random() < unsure) return { verdict, answer: "unsure" as const }
  const isWrong = random() < (verdict === "approve" ? falseRejections : falseApprovals)
  const other = verdict === "approve" ? ("reject" as const) : ("approve" as const)
  return { verdict, answer: isWrong ? other : verdict }
}

/** A reviewer whose answers are compared one by one. */
const makeMeasured = (terms: Terms) => {
  const approve = { agreed: 0, disagreed: 0 }
  const reject = { agreed: 0, disagreed: 0 }
  const recent: Array<boolean> = []
  let standing = standingOf()
  function standingOf() {
    const disagreed = recent.filter((agreed) => !agreed).length
    const counts: ReviewerCounts = {
      approve,
      reject,
      recent: { agreed: recent.length - disagreed, disagreed }
    }
    return reviewerStanding(counts, terms)
  }
  return {
    standing: () => standing,
    compare: ({ answer, verdict }: ReturnType<typeof draw>) => {
      if (answer === "unsure") return
      const agreed = answer === verdict
      const counts = answer === "approve" ? approve : reject
      if (agreed) counts.agreed += 1
      else counts.disagreed += 1
      if (answer === "approve") {
        recent.push(agreed)
        if (recent.length > RECENT_APPROVALS) recent.shift()
      }
      standing = standingOf()
    }
  }
}

const quantile = (values: ReadonlyArray<number>, share: number): number =>
  values.toSorted((one, other) => one - other)[Math.floor((values.length - 1) * share)] ?? 0

const table = (head: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const widths = head.map((cell, column) =>
    Math.max(cell.length, ...rows.map((row) => row[column]?.length ?? 0))
  )
  const line = (cells: ReadonlyArray<string>) =>
    cells.map((cell, column) => cell.padStart(widths[column] ?? 0)).join("  ")
  return [line(head), ...rows.map(line)].join("\n")
}

const percent = (share: number): string => `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`

/** Steps after which a run is given up. */
const MAX_STEPS = 100_000

/** Steps and false approvals from a fall of quality to the end of the right; null: it is not recognized within the limit. */
const fall = (random: Random, terms: Terms, earned: number, sample: number, after: Quality) => {
  const measured = makeMeasured(terms)
  // It has earned the right with decisions that agree, but for a few.
  for (let i = 0; i < earned; i++)
    measured.compare(draw(random, { falseApprovals: 0.005, falseRejections: 0.01, unsure: 0.05 }))
  let falseApprovals = 0
  for (let step = 1; step <= MAX_STEPS; step++) {
    if (measured.standing().approve !== null) return { steps: step - 1, falseApprovals }
    const drawn = draw(random, after)
    if (drawn.answer === "unsure" || random() < sample) measured.compare(drawn)
    else if (drawn.answer === "approve" && drawn.verdict === "reject") falseApprovals++
  }
  return null
}

const terms = { min_lower_bound: 0.95, max_false_approvals: 0.02 }

console.log(
  `Steps from a fall of quality to the end of the right, ${RUNS} runs each. Bounds: people agree with at least 95 % and reject at most 2 %\nof its approvals. Before the fall, people reject 0.1 % of its approvals.\n`
)
const falls = [1_000, 10_000].flatMap((earned) =>
  [0.1, 0.3].flatMap((sample) =>
    [0.25, 0.5, 1].map((falseApprovals) => {
      const random = seededRandom(earned + sample * 10 + falseApprovals * 100)
      const after = { falseApprovals, falseRejections: 0.01, unsure: 0.05 }
      const runs = Array.from({ length: RUNS }, () => fall(random, terms, earned, sample, after)).filter(
        (run) => run !== null
      )
      const wrong = (1 - APPROVED_BY_PEOPLE) * falseApprovals
      return [
        earned.toLocaleString("en-US"),
        percent(sample),
        percent(wrong / (wrong + APPROVED_BY_PEOPLE)),
        ...[0.5, 0.95].map((share) =>
          String(
            quantile(
              runs.map(({ steps }) => steps),
              share
            )
          )
        ),
        ...[0.5, 0.95].map((share) =>
          String(
            quantile(
              runs.map((run) => run.falseApprovals),
              share
            )
          )
        ),
        `${RUNS - runs.length}`
      ]
    })
  )
)
console.log(
  table(
    [
      "compared before",
      "sample",
      "rejected then",
      "steps, median",
      "95 %",
      "false approvals, median",
      "95 %",
      "never"
    ],
    falls
  )
)

/** What a model decides of a history of steps that are compared as they come, while a share goes to people. */
const replay = (random: Random, bounds: Terms, quality: Quality, steps: number, sample: number) => {
  const measured = makeMeasured(bounds)
  let decided = 0
  let approved = 0
  let falseApprovals = 0
  for (let step = 0; step < steps; step++) {
    const drawn = draw(random, quality)
    const { approve, reject } = measured.standing()
    const may =
      (drawn.answer === "approve" && approve === null) || (drawn.answer === "reject" && reject === null)
    if (!may || random() < sample) {
      measured.compare(drawn)
      continue
    }
    decided++
    if (drawn.answer === "approve") {
      approved++
      if (drawn.verdict === "reject") falseApprovals++
    }
  }
  return { decided, approved, falseApprovals }
}

const HISTORY = 10_000
const SAMPLE = 0.1

console.log(
  `\nSaved decisions against false approvals, over ${HISTORY.toLocaleString("en-US")} steps from the first one on, a sample of 10 %, ${CURVE_RUNS} runs. A model that people\nwould correct in this share of its approvals, and bounds from strict to lax (the agreement that is required: 1 - 2.5 times the share).\n`
)
const curve = [0.001, 0.005, 0.01, 0.03].flatMap((wrong) =>
  [0.005, 0.01, 0.02, 0.05, 0.1].map((max_false_approvals) => {
    const random = seededRandom(wrong * 1e4 + max_false_approvals * 1e5)
    const quality = {
      falseApprovals: Math.min(1, (wrong * APPROVED_BY_PEOPLE) / ((1 - wrong) * (1 - APPROVED_BY_PEOPLE))),
      falseRejections: 0.01,
      unsure: 0.05
    }
    const bounds = { max_false_approvals, min_lower_bound: 1 - 2.5 * max_false_approvals }
    const runs = Array.from({ length: CURVE_RUNS }, () => replay(random, bounds, quality, HISTORY, SAMPLE))
    const sum = (of: (run: (typeof runs)[number]) => number) =>
      runs.reduce((total, run) => total + of(run), 0)
    const approved = sum((run) => run.approved)
    return [
      percent(wrong),
      percent(max_false_approvals),
      percent(sum((run) => run.decided) / (runs.length * HISTORY)),
      (sum((run) => run.falseApprovals) / runs.length).toFixed(1),
      approved === 0 ? "-" : `${((sum((run) => run.falseApprovals) / approved) * 100).toFixed(2)} %`
    ]
  })
)
console.log(
  table(
    ["model's share", "max_false_approvals", "decided by it", "false approvals", "of its approvals"],
    curve
  )
)
