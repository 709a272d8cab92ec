"""The results of a run, as text."""

from build import WORK

REPORT = WORK / "report.txt"


def write_report(seed, results):
    """Writes build/mutation/report.txt, and returns its text; `results` are pairs of a mutant and its result."""

    def with_verdict(*verdicts):
        found = [(mutant, result) for mutant, result in results if result.get("verdict") in verdicts]
        return sorted(found, key=lambda pair: (pair[0].source, pair[0].line))

    noticed, survivors = with_verdict("noticed"), with_verdict("survived")
    equivalent, waiting, unknown = with_verdict("equivalent"), with_verdict("suite"), with_verdict(None)
    evaluated = len(noticed) + len(survivors)
    share = f", {100 * len(noticed) / evaluated:.1f} %" if evaluated else ""
    lines = [f"{len(results)} mutants, SEED={seed}: {len(noticed)} of {evaluated} noticed{share}"]
    lines += [f"{len(survivors)} survive, {len(equivalent)} on lines marked Equivalent, "]
    lines[-1] += f"{len(waiting)} not noticed so far, {len(unknown)} not tried yet"
    lines += _section("Survivors", survivors)
    lines += _section("Not noticed by the likely test files; not yet tried with the whole suite", waiting)
    lines += _section("On lines marked Equivalent", equivalent)
    lines += _section("Noticed", noticed)
    text = "\n".join(lines) + "\n"
    REPORT.write_text(text, encoding="utf-8")
    return text


def _section(title, pairs):
    lines = ["", f"{title}: {len(pairs)}"] if pairs else []
    for mutant, result in pairs:
        lines += ["", str(mutant)]
        if result.get("by"):
            lines.append(f"    noticed by {result['by']}")
    return lines
