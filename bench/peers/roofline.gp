# GB/s against size, with the streaming copy as the roofline:
#   evenkeel_peers --sizes --csv sizes.csv && gnuplot -e "csv='sizes.csv'; png='roofline.png'" bench/peers/roofline.gp
# The columns are operation, shape, bytes, copy, evenkeel, and one for each library.
if (!exists("csv")) csv = 'sizes.csv'
if (!exists("png")) png = 'roofline.png'

set datafile separator comma
set terminal pngcairo size 1500,900 noenhanced font ',11'
set output png
stats csv using 3 skip 1 nooutput
columns = STATS_columns

set logscale x 2
set xrange [STATS_min:STATS_max]
set yrange [0:*]
set format x '%.0b %BB'
set xtics 8
set grid
set key top right
set xlabel 'bytes moved'
set ylabel 'GB/s'
set style line 1 linecolor rgb '#666666' linewidth 3 dashtype 2   # the copy
set style line 2 linecolor rgb '#c0392b' linewidth 3 pointtype 7  # evenkeel
set style line 3 linecolor rgb '#2980b9' linewidth 2 pointtype 5
set style line 4 linecolor rgb '#27ae60' linewidth 2 pointtype 9
set style line 5 linecolor rgb '#8e44ad' linewidth 2 pointtype 11

operations = '"LayerNorm forward" "RMSNorm forward" "BatchNorm training forward" "LayerNorm backward" "RMSNorm backward" "BatchNorm training backward"'
speed(column, operation) = strcol(1) eq operation ? column : NaN
set multiplot layout 2,3 title 'Rows of 768 floats, one thread'
do for [operation in operations] {
  set title operation
  plot for [k = 4:columns] csv using 3:(speed(column(k), operation)) with linespoints linestyle k - 3 title columnheader(k)
}
unset multiplot
