"""The one self-contained HTML page that `ldpbeam demo` and `ldpbeam report` write."""
