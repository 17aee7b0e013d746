import type { ComparisonSummary, SideSummary } from "../../../domain/tasks/Comparison.ts"
import type { ExampleOrigin } from "../../../domain/tasks/Dataset.ts"
import { Badge } from "../../ui/Badge.tsx"
import { Table } from "../../ui/Table.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { formatPercent } from "./Comparisons.tsx"

/** The share of examples that each side answers as expected: a bar with its confidence interval, and the shares by field. */
export const AgreementSummary = ({ summary }: { readonly summary: ComparisonSummary }) => {
  const { difference, fields, origins, warning } = summary
  return (
    <>
      <div className="change-head">
        <h2>Agreement with the examples</h2>
        {summary.candidate.agreement === null ? null : difference.low > 0 ? (
          <Badge tone="good">Candidate is better</Badge>
        ) : difference.high < 0 ? (
          <Badge tone="bad">Candidate is worse</Badge>
        ) : (
          <Badge tone="quiet">No significant difference</Badge>
        )}
      </div>
      <Bar label="Candidate" side={summary.candidate} />
      <Bar label="Live" side={summary.live} />
      <p className="quiet small">
        Difference: {points(difference.value)} (95 % confidence interval {points(difference.low)} to{" "}
        {points(difference.high)}). The line across each bar shows the confidence interval of its share.
      </p>
      {warning === null ? null : <p className="notice warn">{warning}</p>}
      {origins.length < 2 ? null : (
        <Table columns={["Examples", "Compared", "Candidate", "Live"]}>
          {origins.map(({ candidate, compared, live, origin }) => (
            <tr key={origin}>
              <td>{originTexts[origin]}</td>
              <td>{compared.toLocaleString("en")}</td>
              <td>{formatPercent(candidate / compared)}</td>
              <td>{formatPercent(live / compared)}</td>
            </tr>
          ))}
        </Table>
      )}
      {fields.length === 0 ? null : (
        <div className="table-scroll">
          <table className="table">
            <thead>
              <tr>
                <th scope="col">Field</th>
                <th scope="col" className="number">
                  Candidate
                </th>
                <th scope="col" className="number">
                  Live
                </th>
              </tr>
            </thead>
            <tbody>
              {fields.map(({ candidate, compared, field, live }) => (
                <tr key={field}>
                  <th scope="row">
                    <UntrustedText text={field} />
                  </th>
                  <td className="number">{formatPercent(compared === 0 ? null : candidate / compared)}</td>
                  <td className="number">{formatPercent(compared === 0 ? null : live / compared)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  )
}

const originTexts: Readonly<Record<ExampleOrigin, string>> = {
  correction: "Corrections",
  confirmed: "Confirmed answers",
  import: "Imported",
  made: "Added directly"
}

const points = (value: number): string =>
  `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(Math.round(value * 1_000) / 10).toLocaleString("en")} points`

/** The x position of a share in the bar, kept off the edges so that an end mark is not clipped. */
const barPosition = (share: number): number => Math.min(996, Math.max(4, share * 1000))

/** One side's share of expected answers, with its confidence interval. */
const Bar = ({ label, side }: { readonly label: string; readonly side: SideSummary }) => {
  const { high, low } = side.agreement_interval
  return (
    <div className="agreement">
      <div className="agreement-text">
        <span className="legend">{label}</span>
        <strong>{formatPercent(side.agreement)}</strong>
      </div>
      <svg viewBox="0 0 1000 24" preserveAspectRatio="none" aria-hidden="true">
        <rect width="1000" height="24" className="agreement-whole" />
        <rect
          width={(side.agreement ?? 0) * 1000}
          height="24"
          className={label === "Live" ? "agreement-live" : "agreement-candidate"}
        />
        {side.agreement === null ? null : (
          <path
            d={`M${barPosition(low)} 5 v14 m0 -7 H${barPosition(high)} m0 -7 v14`}
            className="agreement-interval"
          />
        )}
      </svg>
      <span className="visually-hidden">
        95 % confidence interval {formatPercent(low)} to {formatPercent(high)}
      </span>
    </div>
  )
}
