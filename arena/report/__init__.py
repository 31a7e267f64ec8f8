"""What commands print and screens show: tables, boards, charts, progress, the HTML page."""
